"""One encoder for both sides of a pair of samples: called twice, or once on both joined."""

import numpy as np

CONFIGS = {"default": {"features": 5, "width": 8}}


def make_inputs(config, seed):
    """first, second (B, F) float, same (B) int64: 1 where the two belong together"""
    rng = np.random.default_rng(seed)
    shape = (6, config["features"])
    first, second = rng.standard_normal(shape), rng.standard_normal(shape)
    return {"first": first, "second": second, "same": rng.integers(0, 2, 6)}
