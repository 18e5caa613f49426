"""A user's own pair, for the tests: recurrent layers, two deep and in both directions."""

import numpy as np

CONFIGS = {"default": {"vocab_size": 11, "channels": 4, "hidden": 5, "num_labels": 3}}


def make_inputs(config, seed):
    """input_ids (B, T) int64, labels (B) int64"""
    rng = np.random.default_rng(seed)
    return {
        "input_ids": rng.integers(1, config["vocab_size"], size=(3, 6)),
        "labels": rng.integers(0, config["num_labels"], size=3),
    }
