"""A model of what other people's models do inside; each fault is planted in the port alone."""

import numpy as np

FAULTS = ("", "conjugate", "penalty", "average", "forgotten", "table", "nan to zero")
CONFIGS = {fault or "default": {"fault": fault, "masks": False} for fault in FAULTS[:-1]}
CONFIGS |= {f"masks {f}".strip(): {"fault": f, "masks": True} for f in ("", FAULTS[-1])}


def make_inputs(config, seed):
    """x (B, T, C) float, target (B, T, C) float between 0 and 1, keep (B, T) 1 = keep"""
    rng = np.random.default_rng(seed)
    keep = np.ones((3, 6), np.int64)
    keep[1, 4:], keep[2] = 0, 0
    return {
        "x": rng.standard_normal((3, 6, 8)),
        "target": rng.random((3, 6, 8)),
        "keep": keep if config["masks"] else np.ones_like(keep),
    }
