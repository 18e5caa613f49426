"""A pointer: scores of places, minus infinity where there is none, beside the mask itself."""

import numpy as np

CONFIGS = {"default": {"features": 5, "width": 8}}

optimizer = {"epochs": 6, "batch_size": 16, "lr": 1e-2, "schedule": "linear"}

PLACES = 7


def make_inputs(config, seed):
    """x (B, T, F) float, lengths (B) and labels (B) int64"""
    return _rows(config, np.random.default_rng(seed), 6)


def make_data(config, seed):
    """The place to point at is that of the largest first feature."""
    rng = np.random.default_rng(seed)
    return {"train": _rows(config, rng, 256), "test": _rows(config, rng, 128)}


def _rows(config, rng, count):
    x = rng.standard_normal((count, PLACES, config["features"]))
    lengths = rng.integers(2, PLACES + 1, count)
    seen = np.where(np.arange(PLACES) < lengths[:, None], x[..., 0], -np.inf)
    return {"x": x, "lengths": lengths, "labels": seen.argmax(axis=1)}
