"""A user's own pair, for the tests: whatever a hook may meet in a model."""

import numpy as np

CONFIGS = {"default": {"width": 6}}


def make_inputs(config, seed):
    """x (4, 3, C) float, keep (3, 3) bool, labels (4) int64"""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((4, 3, config["width"])),
        "keep": np.tri(3) > 0,
        "labels": rng.integers(0, 2, 4),
    }
