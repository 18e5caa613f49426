"""Stochastic depth in train mode: whole samples of a branch are dropped by a draw of one's own."""

import numpy as np

CONFIGS = {"default": {"width": 8, "depth": 3, "rate": 0.3, "classes": 3}}


def make_inputs(config, seed):
    """x (B, T, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, 4, config["width"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], 6)}
