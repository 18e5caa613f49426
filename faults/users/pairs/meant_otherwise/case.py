"""A port that means other things by the same names: its mask, its layout, its order of rows.

Sizes coincide on purpose: an array of one arrangement has the shape of the other.
"""

import numpy as np

CONFIGS = {
    "default": {
        "batch": 6,
        "length": 6,
        "width": 6,
        "classes": 5,
        # What the Paddle side does otherwise.
        "mask": "seen",  # or padding (as torch), seen_bool, added
        "last": True,  # channels
        "time_first": True,  # the rows that the head is given
    }
}


def make_inputs(config, seed):
    """x (B, C, T), lengths (B): one is full, one has a single token"""
    rng = np.random.default_rng(seed)
    size = (config["batch"], config["width"], config["length"])
    lengths = rng.integers(2, config["length"], size[0])
    lengths[:2] = config["length"], 1
    labels = rng.integers(0, config["classes"], (size[0], size[2]))
    return {"x": rng.standard_normal(size), "lengths": lengths, "labels": labels}
