"""nn.TransformerEncoder, norms in front, in the reference; its blocks written out in the port."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 2, "layers": 2, "classes": 3}}


def convert(state):
    """One fused query, key, value Linear a block, as torch keeps it."""
    made = {}
    for i in range(CONFIGS["default"]["layers"]):
        old, new = f"encoder.layers.{i}.self_attn", f"encoder.layers.{i}"
        made[f"{new}.qkv.weight"] = state[f"{old}.in_proj_weight"].T
        made[f"{new}.qkv.bias"] = state[f"{old}.in_proj_bias"]
        made[f"{new}.out.weight"] = state[f"{old}.out_proj.weight"].T
        made[f"{new}.out.bias"] = state[f"{old}.out_proj.bias"]
    return made


def make_inputs(config, seed):
    """x (B, T, C) float, padding (B, T) bool, labels (B, T) with -100 where padded"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 5, config["width"]))
    padding = np.arange(5) >= np.array([5, 3, 2])[:, None]
    labels = np.where(padding, -100, rng.integers(0, config["classes"], (3, 5)))
    return {"x": x, "padding": padding, "labels": labels}
