"""A choice among so many that a log may hold few of its scores: 2 x 72 x 128 of them."""

import numpy as np

CONFIGS = {"default": {"features": 16, "codes": 64, "classes": 5}}


def make_inputs(config, seed):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((2, 72, config["features"])).astype(np.float32)
    return {"x": x, "labels": generator.integers(0, config["classes"], 2)}
