"""Pointwise convolutions in the reference, Linear on channels last in the port."""

import numpy as np

CONFIGS = {"default": {"width": 6, "blocks": 2, "classes": 3}}


def convert(state):
    """A Linear's weight is its 1 x 1 convolution's, transposed."""
    pointwise = [key for key in state if key.endswith(("up.weight", "down.weight"))]
    return {key: state[key][:, :, 0, 0].T for key in pointwise}


def make_inputs(config, seed):
    """images (B, 3, 8, 8) float, labels (B)"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((3, 3, 8, 8))
    return {"images": images, "labels": rng.integers(0, config["classes"], 3)}
