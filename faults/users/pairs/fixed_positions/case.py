"""A table of sines and cosines that neither side learns, built in two ways; a linear recurrence."""

import numpy as np

CONFIGS = {"default": {"words": 20, "width": 8, "longest": 12}}


def make_inputs(config, seed):
    """ids (B, T), next (B, T)"""
    ids = np.random.default_rng(seed).integers(0, config["words"], (2, 10))
    return {"ids": ids[:, :-1], "next": ids[:, 1:]}
