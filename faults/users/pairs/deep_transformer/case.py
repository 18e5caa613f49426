"""24 blocks with norms in front, in two styles: a wrapper around a function, or written out."""

import numpy as np

CONFIGS = {"default": {"width": 8, "heads": 2, "depth": 24, "classes": 3}}
RENAME = {}
for i in range(24):
    RENAME |= {
        f"blocks.{i}.norm1": f"layers.{i}.0.norm",
        f"blocks.{i}.attend": f"layers.{i}.0.fn",
        f"blocks.{i}.norm2": f"layers.{i}.1.norm",
        f"blocks.{i}.fc1": f"layers.{i}.1.fn.0",
        f"blocks.{i}.fc2": f"layers.{i}.1.fn.2",
    }


def make_inputs(config, seed):
    """x (B, T, C) float, labels (B)"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 5, config["width"]))
    return {"x": x, "labels": rng.integers(0, config["classes"], 3)}
