"""nn.MultiheadAttention in the reference, four Linears in a wrapper in the port."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 4, "classes": 3}}


def convert(state):
    """in_proj's rows are query, key and value."""
    made = {}
    for i, name in enumerate(("q", "k", "v")):
        rows = slice(8 * i, 8 * (i + 1))
        made[f"attend.{name}.weight"] = state["attend.in_proj_weight"][rows].T
        made[f"attend.{name}.bias"] = state["attend.in_proj_bias"][rows]
    made["attend.o.weight"] = state["attend.out_proj.weight"].T
    made["attend.o.bias"] = state["attend.out_proj.bias"]
    return made


def make_inputs(config, seed):
    """x (B, T, C) float, memory (B, S, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    width = config["width"]
    labels = rng.integers(0, config["classes"], 2)
    return {"x": draw((2, 4, width)), "memory": draw((2, 6, width)), "labels": labels}
