"""Encoder and decoder with buckets of relative positions and no scale; a norm without a mean."""

import numpy as np

CONFIGS = {"default": {"words": 25, "width": 12, "heads": 2, "buckets": 8, "layers": 1}}


def make_inputs(config, seed):
    """source (B, S), target (B, T)"""
    rng = np.random.default_rng(seed)
    source = rng.integers(1, config["words"], (2, 9))
    return {"source": source, "target": rng.integers(1, config["words"], (2, 6))}
