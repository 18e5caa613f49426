"""Causal convolutions under weight norm, called twice each: padded and cut, or padded left."""

import numpy as np

CONFIGS = {"default": {"width": 6, "layers": 3}}


def make_inputs(config, seed):
    """signal (B, 1, T) float"""
    return {"signal": np.random.default_rng(seed).standard_normal((3, 1, 17))}
