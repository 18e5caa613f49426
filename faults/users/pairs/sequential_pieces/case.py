"""One Sequential in the reference, layers by name and functions in the port."""

import numpy as np

CONFIGS = {"default": {"features": 6, "width": 10, "classes": 3}}
RENAME = {"first": "net.0", "norm": "net.1", "second": "net.4", "third": "net.6"}


def make_inputs(config, seed):
    """features (B, F) float, labels (B)"""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((6, config["features"]))
    return {"features": features, "labels": rng.integers(0, config["classes"], 6)}
