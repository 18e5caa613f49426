"""Routing between capsules: einsum in the reference, matmul in the port."""

import numpy as np

CONFIGS = {"default": {"capsules": 6, "size": 4, "classes": 3, "out": 5}}


def make_inputs(config, seed):
    """x (B, N, D) float, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, config["capsules"], config["size"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], 3)}
