"""A bidirectional LSTM over rows of several lengths: packed in the reference."""

import numpy as np

CONFIGS = {"default": {"words": 20, "width": 6, "classes": 3}}


def make_inputs(config, seed):
    """ids (B, T) with padding 0, lengths (B), labels (B)"""
    rng = np.random.default_rng(seed)
    lengths = np.array([7, 3, 5, 1])
    ids = rng.integers(1, config["words"], (4, 7)) * (np.arange(7) < lengths[:, None])
    return {"ids": ids, "lengths": lengths, "labels": rng.integers(0, config["classes"], 4)}
