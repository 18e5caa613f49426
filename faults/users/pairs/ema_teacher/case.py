"""A teacher that follows its student by a moving average of parameters, in training forwards."""

import numpy as np

CONFIGS = {"default": {"width": 6, "m": 0.99}}


def make_inputs(config, seed):
    """a, b (B, F) float: two views of the same samples"""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((4, 5))
    return {"a": a, "b": a + 0.2 * rng.standard_normal((4, 5))}
