"""Smoothed labels and class weights: by the framework's loss, or by hand from one-hot rows."""

import numpy as np

CONFIGS = {"default": {"features": 6, "width": 8, "classes": 5}}


def make_inputs(config, seed):
    """features (B, F) float, labels (B)"""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((7, config["features"]))
    return {"features": features, "labels": rng.integers(0, config["classes"], 7)}
