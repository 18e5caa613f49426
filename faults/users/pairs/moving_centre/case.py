"""Self-distillation: a centre that moves with each training forward, a teacher without gradient."""

import numpy as np

CONFIGS = {"default": {"features": 6, "width": 8, "out": 5, "momentum": 0.9}}


def make_inputs(config, seed):
    """one, two (B, F) float: two views of the same samples"""
    rng = np.random.default_rng(seed)
    one = rng.standard_normal((5, config["features"]))
    return {"one": one, "two": one + 0.1 * rng.standard_normal(one.shape)}
