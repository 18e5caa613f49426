"""A frozen feature extractor beside a small trained one: some gradients are tiny, some are none."""

import numpy as np

CONFIGS = {"default": {"features": 6, "width": 8, "classes": 3}}


def make_inputs(config, seed):
    """x (B, F) float, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((5, config["features"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], 5)}
