"""Attention in shifted windows with a table of relative positions, the two orders of axes."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 2, "window": 2, "classes": 3}}


def make_inputs(config, seed):
    """x (B, 4, 4, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 4, 4, config["width"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], 2)}
