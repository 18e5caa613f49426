"""What both sides of the small language model are built from and trained on."""

import numpy as np

CONFIGS = {"default": {"vocabulary": 24, "width": 16, "length": 10}}
optimizer = {
    "epochs": 4,
    "batch_size": 16,
    "optimizer": "adamw",
    "lr": 1e-2,
    "weight_decay": 0.1,
    "clip_norm": 0.5,
    "schedule": "linear",
    "warmup_steps": 4,
}


def make_inputs(config, seed):
    """Four rows of tokens."""
    return _rows(config, np.random.default_rng(seed), 4)


def make_data(config, seed):
    """Rows in which each token follows from the one before; their ends are ignored."""
    rng = np.random.default_rng(seed)
    return {part: _rows(config, rng, count) for part, count in (("train", 200), ("test", 64))}


def _rows(config, rng, count):
    """input_ids, labels (N, T): the next token; -100 behind a row's end."""
    length, vocabulary = config["length"], config["vocabulary"]
    ids = rng.integers(1, vocabulary, (count, length + 1))
    for place in range(length):
        follows = rng.random(count) < 0.8
        ids[follows, place + 1] = (3 * ids[follows, place] + 1) % vocabulary
    labels = ids[:, 1:].copy()
    labels[np.arange(length) >= rng.integers(3, length + 1, count)[:, None]] = -100
    return {"input_ids": ids[:, :-1].copy(), "labels": labels}
