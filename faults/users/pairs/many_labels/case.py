"""Float labels and binary cross entropy: by the framework's logits, or by hand."""

import numpy as np

CONFIGS = {"default": {"features": 6, "width": 8, "labels": 4}}


def make_inputs(config, seed):
    """features (B, F) float, targets (B, L) float, of which some are soft"""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((5, config["features"]))
    targets = rng.integers(0, 3, (5, config["labels"])) / 2.0
    return {"features": features, "targets": targets}
