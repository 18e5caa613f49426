"""Paddle's layers that keep torch's names and layouts, and arguments under torch's names."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 2, "experts": 4}}


def make_inputs(config, seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((3, 6, config["width"]))}
