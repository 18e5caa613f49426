"""A critic whose loss holds the norm of its own gradient: a gradient of gradients."""

import numpy as np

CONFIGS = {"default": {"features": 5, "width": 8}}


def make_inputs(config, seed):
    """real, made (B, F) float, mix (B, 1) float in [0, 1]"""
    rng = np.random.default_rng(seed)
    shape = (4, config["features"])
    real, made = rng.standard_normal(shape), 0.5 + rng.standard_normal(shape)
    return {"real": real, "made": made, "mix": rng.random((4, 1))}
