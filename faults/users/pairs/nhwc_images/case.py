"""Channels first in the reference, channels last inside the port."""

import numpy as np

CONFIGS = {"default": {"width": 6, "classes": 4}}


def make_inputs(config, seed):
    """images (B, 3, 10, 10) float, labels (B)"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((4, 3, 10, 10))
    return {"images": images, "labels": rng.integers(0, config["classes"], 4)}
