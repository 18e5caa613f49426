"""GroupNorm, InstanceNorm, LayerNorm, GELU: layers in the reference, by hand in the port."""

import numpy as np

CONFIGS = {"default": {"width": 8, "groups": 2, "classes": 3}}
RENAME = {"group_scale": "group.weight", "group_shift": "group.bias"}


def make_inputs(config, seed):
    """images (B, 3, 6, 7) float, labels (B)"""
    rng = np.random.default_rng(seed)
    images = 2.0 + rng.standard_normal((3, 3, 6, 7))
    return {"images": images, "labels": rng.integers(0, config["classes"], 3)}
