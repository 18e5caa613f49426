"""A small image network as in both frameworks' vision libraries: float32 images, one tensor."""

import numpy as np

CONFIGS = {"default": {"width": 8, "num_classes": 4}}

optimizer = {
    "epochs": 5,
    "batch_size": 16,
    "optimizer": "sgd",
    "lr": 0.05,
    "schedule": "cosine",
    "weight_decay": 0.0,
}

SIDE = 16  # pixels


def make_inputs(config, seed):
    """x (B, 3, H, W) float32, labels (B) int64"""
    return _images(config, np.random.default_rng(seed), 4)


def make_data(config, seed):
    """Noisy stripes: the class is which way they run."""
    rng = np.random.default_rng(seed)
    return {"train": _images(config, rng, 256), "test": _images(config, rng, 128)}


def _images(config, rng, count):
    labels = rng.integers(0, config["num_classes"], count)
    angles = np.pi * labels / config["num_classes"]
    ways = np.stack([np.cos(angles), np.sin(angles)])[..., None, None, None]  # (2, N, 1, 1, 1)
    down, across = np.mgrid[:SIDE, :SIDE]
    phases = rng.uniform(0, 2 * np.pi, (count, 3, 1, 1))
    stripes = np.sin(1.2 * (ways[0] * across + ways[1] * down) + phases)  # (N, 3, H, W)
    images = stripes + 0.3 * rng.standard_normal(stripes.shape)
    return {"x": images.astype(np.float32), "labels": labels}
