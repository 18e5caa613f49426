"""Attention written out in the reference, the framework's own in the port; a mask of padding."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 2, "classes": 3}}


def make_inputs(config, seed):
    """x (B, T, C) float, keep (B, T) bool, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 6, config["width"]))
    keep = np.arange(6) < np.array([6, 4, 1])[:, None]
    return {"x": x, "keep": keep, "labels": rng.integers(0, config["classes"], 3)}
