"""A codebook that a training forward moves by moving averages; straight through its choice."""

import numpy as np

CONFIGS = {"default": {"features": 6, "size": 4, "codes": 8, "decay": 0.9}}


def make_inputs(config, seed):
    """x (B, T, F) float"""
    return {"x": np.random.default_rng(seed).standard_normal((3, 5, config["features"]))}
