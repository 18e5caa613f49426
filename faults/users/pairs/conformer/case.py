"""An ordinary Conformer (Gulati et al. 2020), as each side's people write it."""

import numpy as np

CONFIGS = {
    "default": {
        "features": 8,
        "width": 16,
        "heads": 2,
        "kernel": 5,
        "layers": 2,
        "classes": 4,
        "dropout": 0.1,
    }
}

optimizer = {
    "epochs": 8,
    "batch_size": 16,
    "optimizer": "adamw",
    "lr": 4e-3,
    "schedule": "linear",
    "warmup_steps": 8,
    "weight_decay": 0.01,
}

FRAMES = 20
NOISE = 0.2  # of a frame, beside tones of size 1


def make_inputs(config, seed):
    """x (B, T, F) float, labels (B) int64"""
    return _sounds(config, np.random.default_rng(seed), 6)


def make_data(config, seed):
    """Noisy tones: the class is how fast they swing."""
    rng = np.random.default_rng(seed)
    return {"train": _sounds(config, rng, 256), "test": _sounds(config, rng, 128)}


def _sounds(config, rng, count):
    labels = rng.integers(0, config["classes"], count)
    time = np.arange(FRAMES)[:, None]
    rates = 0.3 + 0.6 * labels[:, None, None]
    phases = rng.uniform(0, 2 * np.pi, (count, 1, config["features"]))
    x = np.sin(rates * time + phases)  # (N, T, F)
    return {"x": x + NOISE * rng.standard_normal(x.shape), "labels": labels}
