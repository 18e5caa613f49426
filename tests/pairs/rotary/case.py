"""Constants that torch keeps as buffers; the port carries or computes them, or does so wrongly."""

import numpy as np

_CONFIG = {"words": 20, "width": 16, "kept": False, "base": 10000.0}
CONFIGS = {
    "default": _CONFIG,
    "kept": {**_CONFIG, "kept": True},
    "wrong": {**_CONFIG, "base": 10001.0},
}


def make_inputs(config, seed):
    """ids (B, T), next (B, T)"""
    ids = np.random.default_rng(seed).integers(0, config["words"], (2, 10))
    return {"ids": ids[:, :-1], "next": ids[:, 1:]}
