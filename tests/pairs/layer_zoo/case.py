"""A user's own pair, for the tests: one of each of the frameworks' layers that own weights."""

import numpy as np

CONFIGS = {"default": {"channels": 4}}


def make_inputs(config, seed):
    """input_ids (B, T) int64 with padding; line, plane, volume (B, C, ...), rows (B, C) float"""
    rng = np.random.default_rng(seed)
    inputs = {"input_ids": rng.integers(0, 5, size=(3, 6))}
    inputs["input_ids"][0, -2:] = 0
    for name, sizes in {"line": [5], "plane": [4, 3], "volume": [3, 3, 2], "rows": []}.items():
        shape = (3, config["channels"], *sizes)
        inputs[name] = rng.standard_normal(shape).astype(np.float32)
    return inputs
