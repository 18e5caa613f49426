"""A recommender: products of pairs in a loop, or by the square of a sum less the squares."""

import numpy as np

CONFIGS = {"default": {"fields": (5, 7, 4), "width": 4}}


def make_inputs(config, seed):
    """fields (B, 3), dense (B, 2) float, clicked (B) float: 0 or 1, the labels"""
    rng = np.random.default_rng(seed)
    fields = np.stack([rng.integers(0, size, 8) for size in config["fields"]], axis=1)
    clicked = rng.integers(0, 2, 8).astype(np.float32)
    return {"fields": fields, "dense": rng.standard_normal((8, 2)), "clicked": clicked}
