"""Two of four experts a token: each fed its own tokens, or all tokens and weights of 0."""

import numpy as np

CONFIGS = {"default": {"width": 8, "experts": 4, "chosen": 2, "classes": 3}}


def make_inputs(config, seed):
    """x (B, T, C) float, labels (B, T)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 6, config["width"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], (2, 6))}
