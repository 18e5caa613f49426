"""A small model in which each of a few faults can be planted."""

import numpy as np

_CONFIG = {"channels": 8, "fault": ""}
FAULTS = ("layer's mask", "function's mask", "root", "dict", "samples", "float", "put in")
CONFIGS = {"default": _CONFIG} | {fault: {**_CONFIG, "fault": fault} for fault in FAULTS}
CONFIGS["square"] = {"channels": 10, "fault": "layer's mask"}


def make_inputs(config, seed):
    """x (N, C, L)"""
    return {"x": np.random.default_rng(seed).standard_normal((4, config["channels"], 10))}
