"""Depthwise separable blocks with squeeze and excite, in eval and in train mode."""

import numpy as np

CONFIGS = {"default": {"width": 8, "classes": 3}}


def make_inputs(config, seed):
    """images (B, 3, 12, 12) float, labels (B)"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((4, 3, 12, 12))
    return {"images": images, "labels": rng.integers(0, config["classes"], 4)}
