"""A pair for the tests: random numbers drawn in forward, each side in its framework's own way."""

import numpy as np

CONFIGS = {"default": {"width": 8, "p": 0.4}}


def make_inputs(config, seed):
    """tokens (B, T, C) float, labels (B) int64"""
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((4, 6, config["width"]))
    return {"tokens": tokens.astype(np.float32), "labels": rng.integers(0, 3, size=4)}
