"""The first thing that a newcomer tries: one Linear."""

import numpy as np

CONFIGS = {"default": {}}


def make_inputs(config, seed):
    """x (2, 3) float"""
    return {"x": np.random.default_rng(seed).standard_normal((2, 3))}
