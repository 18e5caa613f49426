"""A layer in which Paddle has a part, or seems to; `fault` is what the port adds of its own."""

import numpy as np

KINDS = ("tiny_gradients", "interpolate", "batch_norm", "graph", "experts", "wide_loss", "norms")
FAULTS = {
    "interpolate": "a factor of 1 - 1e-7",
    "batch_norm": "a momentum of 0.9 + 1e-7",
    "graph": "1e-8 for 1e-16 in a denominator",
    "experts": "a factor of 1 - 1e-7",
    "wide_loss": "logits 1e-6 larger",
    "norms": "an epsilon of 0.999e-3",
}


def _case(kind, fault):
    inputs = {"kind": kind}
    return {"config": {"kind": kind, "fault": fault}, "inputs": inputs, "weights": "perturbed"}


CASES = {
    "default": {kind: _case(kind, False) for kind in KINDS},
    "wrong": {f"wrong_{kind}": _case(kind, True) for kind in FAULTS},
}
CONFIGS = {name: {"kind": "graph", "fault": False, "width": 8} for name in CASES}


def make_inputs(config, seed, kind="graph"):
    """x (B, 3, 4, 4) float, labels (B) int64"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 3, 4, 4))
    return {
        "x": x.astype(np.float32),
        "labels": rng.integers(0, config["width"], size=4),
    }
