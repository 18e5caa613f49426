"""The port is wrapped: a class for the task around a backbone, as libraries have them."""

import numpy as np

CONFIGS = {"default": {"features": 6, "width": 8, "classes": 3}}
RENAME = {"backbone.body": "body", "backbone.norm": "norm"}


def make_inputs(config, seed):
    """features (B, F) float, labels (B)"""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((5, config["features"]))
    return {"features": features, "labels": rng.integers(0, config["classes"], 5)}
