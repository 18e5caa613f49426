"""A user's own pair, for the tests: a small image classifier with BatchNorm."""

import numpy as np

CONFIGS = {"default": {"channels": 6, "num_labels": 4}}
RENAME = {"body": "features"}


def make_inputs(config, seed):
    """images (B, 3, 8, 8) float, labels (B) int64"""
    rng = np.random.default_rng(seed)
    return {
        "images": rng.standard_normal((5, 3, 8, 8)).astype(np.float32),
        "labels": rng.integers(0, config["num_labels"], size=5),
    }
