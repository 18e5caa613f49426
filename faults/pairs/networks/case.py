"""Correct small networks that are hard to judge; see the classes in torch_model.py."""

import numpy as np


def _case(kind, width=12, layers=4, train=False, scale=1.0, weight=0.25, **config):
    return {
        "config": {"kind": kind, "width": width, "layers": layers, **config},
        "inputs": {"scale": scale, "weight": weight},
        "train": train,
    }


CASES = {
    "default": {
        # the first case also takes step 4's optimizer steps
        "pooling": _case("pooling", weights="trained"),
        "pooling_hostile": _case("pooling", weights="hostile"),
        "residual": _case("residual", layers=30),
        "residual_hostile": _case("residual", layers=30, weights="hostile"),
        "residual_large": _case("residual", layers=6, scale=1e6),
        "residual_tiny": _case("residual", layers=6, scale=1e-6),
        "dead": _case("dead"),
        "dead_hostile": _case("dead", weights="hostile"),
        "images": _case("images"),
        "images_trained": _case("images", weights="trained"),
        "images_train_mode": _case("images", train=True),
        "images_train_mode_trained": _case("images", weights="trained", train=True),
        "outputs": _case("outputs"),
        "outputs_hostile": _case("outputs", weights="hostile"),
        "precise": _case("precise"),
        "precise_trained": _case("precise", weights="trained", layers=8),
    },
    # each kind's optimizer steps are a run of their own
    "gauge": {"pooling_summed": _case("pooling", weights="trained", weight=1e4)},
    "norms": {"images_train_mode": _case("images", train=True)},
}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def make_inputs(config, seed, scale=1.0, weight=0.25):
    """x (B, C), tokens (B, T, C) or images (B, 3, S, S) float; labels (B) int64; weight (1)"""
    rng = np.random.default_rng(seed)
    width = config["width"]
    name, shape = {
        "images": ("images", (4, 3, 8, 8)),
        "pooling": ("tokens", (4, 9, width)),
    }.get(config["kind"], ("x", (4, width)))
    return {
        name: (scale * rng.standard_normal(shape)).astype(np.float32),
        "labels": rng.integers(0, config.get("num_labels", 5), size=4),
        "weight": np.full(1, weight, np.float32),
    }
