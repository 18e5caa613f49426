"""A learned filter between two Fourier transforms: complex tensors go from layer to layer."""

import numpy as np

CONFIGS = {"default": {"width": 4, "size": 6, "classes": 3}}


def make_inputs(config, seed):
    """x (B, H, W, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, config["size"], config["size"], config["width"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], 3)}
