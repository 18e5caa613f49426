"""A detector's heads at two levels: focal loss and boxes, in lists and tuples."""

import numpy as np

CONFIGS = {"default": {"width": 6, "classes": 2}}


def make_inputs(config, seed):
    """images (B, 3, 8, 8) float, hot (B, 20, K) int64, boxes (B, 20, 4) float, found (B, 20)"""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 2, (2, 20))
    kinds = rng.integers(0, config["classes"], (2, 20))
    hot = np.eye(config["classes"], dtype=np.int64)[kinds] * found[..., None]
    boxes = rng.standard_normal((2, 20, 4))
    return {"images": rng.standard_normal((2, 3, 8, 8)), "hot": hot, "boxes": boxes, "found": found}
