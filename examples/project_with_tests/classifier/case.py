"""What both sides are built from and fed with."""

import numpy as np

CONFIGS = {"default": {"width": 6, "classes": 3}}


def make_inputs(config, seed):
    """Five rows, with the class of each."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(5, config["width"]))
    return {"input": x, "labels": rng.integers(0, config["classes"], 5)}
