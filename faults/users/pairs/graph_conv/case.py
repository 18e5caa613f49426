"""A graph convolution: messages added by index in the reference, a dense matrix in the port."""

import numpy as np

CONFIGS = {"default": {"features": 5, "width": 8, "classes": 3}}


def make_inputs(config, seed):
    """x (N, F) float, edges (2, E), labels (N)"""
    rng = np.random.default_rng(seed)
    nodes = 9
    pairs = np.argwhere(np.triu(rng.random((nodes, nodes)) < 0.3, 1))
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    x = rng.standard_normal((nodes, config["features"]))
    return {"x": x, "edges": edges, "labels": rng.integers(0, config["classes"], nodes)}
