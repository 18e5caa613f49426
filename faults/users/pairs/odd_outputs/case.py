"""Outputs of every form: a dict, a tuple in it, None, a list; another order on the other side."""

import numpy as np

CONFIGS = {"default": {"words": 12, "width": 6, "layers": 2}}


def make_inputs(config, seed):
    """ids (B, T), starts (B), ends (B)"""
    rng = np.random.default_rng(seed)
    starts, ends = rng.integers(0, 7, (2, 3))
    return {"ids": rng.integers(0, config["words"], (3, 7)), "starts": starts, "ends": ends}
