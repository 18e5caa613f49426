"""Rows that are all padding: a softmax of -inf alone is NaN on both sides, and has no label."""

import numpy as np

CONFIGS = {"default": {"width": 8, "classes": 3}}


def make_inputs(config, seed):
    """x (B, T, C) float, keep (B, T) bool, one row of which is all False; labels (B), -100 there"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 5, config["width"]))
    keep = np.arange(5) < np.array([5, 0, 2, 3])[:, None]
    labels = np.where(keep.any(1), rng.integers(0, config["classes"], 4), -100)
    return {"x": x, "keep": keep, "labels": labels}
