"""Attention over the edges that end in a node: sums by index, or a dense table."""

import numpy as np

CONFIGS = {"default": {"features": 5, "width": 4, "heads": 2, "classes": 3}}


def make_inputs(config, seed):
    """x (N, F) float, edges (2, E) of which no two are alike, labels (N)"""
    rng = np.random.default_rng(seed)
    nodes = 8
    edges = np.argwhere((rng.random((nodes, nodes)) < 0.35) | np.eye(nodes, dtype=bool)).T
    x = rng.standard_normal((nodes, config["features"]))
    return {"x": x, "edges": edges, "labels": rng.integers(0, config["classes"], nodes)}
