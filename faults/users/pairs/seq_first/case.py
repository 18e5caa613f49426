"""The reference's encoder has time first, so that its dropouts' masks are turned against these."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 2, "layers": 2}}


def convert(state):
    made = {}
    for i in range(2):
        a = f"encoder.layers.{i}.self_attn"
        for j, n in enumerate("qkv"):
            made[f"{a}.{n}_proj.weight"] = state[f"{a}.in_proj_weight"][8 * j : 8 * j + 8].T
            made[f"{a}.{n}_proj.bias"] = state[f"{a}.in_proj_bias"][8 * j : 8 * j + 8]
    return made


def make_inputs(config, seed):
    """x (B, T, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((3, 5, 8)), "labels": rng.integers(0, 4, 3)}
