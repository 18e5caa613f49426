"""A layer that the reference has under two names, and the port calls twice under one."""

import numpy as np

CONFIGS = {"default": {"width": 8, "classes": 3}}


def make_inputs(config, seed):
    """left, right (B, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((2, 4, config["width"]))
    return {"left": left, "right": right, "labels": rng.integers(0, config["classes"], 4)}
