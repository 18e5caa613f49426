"""A pair for the tests: every kind of dropout, spelt as a layer here and as a function there."""

import numpy as np

CONFIGS = {"default": {"width": 8, "p": 0.25}}


def make_inputs(config, seed):
    """images (B, C, H, W) float, labels (B) int64"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((4, config["width"], 6, 6))
    return {"images": images.astype(np.float32), "labels": rng.integers(0, 3, size=4)}
