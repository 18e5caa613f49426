"""Two towers and a contrastive loss; the port calls the towers in the other order."""

import numpy as np

CONFIGS = {"default": {"words": 20, "width": 8, "joint": 6}}


def make_inputs(config, seed):
    """images (B, 3, 6, 6) float, ids (B, T)"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((4, 3, 6, 6))
    return {"images": images, "ids": rng.integers(0, config["words"], (4, 5))}
