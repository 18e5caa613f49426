"""What both sides of the example are built from and fed with (NumPy only)."""

import numpy as np

# Presets: the keys are what `build` gets.  "default" must be there.
CONFIGS = {
    "default": {
        "vocabulary": 40,  # words; 0 is padding
        "width": 16,
        "heads": 2,
        "layers": 2,
        "max_length": 12,
        "classes": 3,
        "dropout": 0.1,
    }
}

# Paddle name: torch name, where a module was called otherwise.
RENAME = {"classifier": "head"}

# How step 5 trains; what is left out is as common/pair/case_hooks.py says.
optimizer = {
    "epochs": 5,
    "batch_size": 64,
    "optimizer": "adamw",
    "lr": 2e-2,
    "weight_decay": 0.125,
    "clip_norm": 0.6,
    "schedule": "linear",
    "warmup_steps": 4,
}


def make_inputs(config, seed):
    """A batch for steps 1, 3 and 4 that reaches the edges: full, short, and padding alone."""
    rng = np.random.default_rng(seed)
    lengths = np.array([config["max_length"], 5, 1, 0])
    return _sentences(config, rng, lengths)


def make_data(config, seed):
    """Sentences whose class is that of most of their words: 1,176 to train on, 800 to test on.

    One of 800 is 0.125 %, less than the 0.15 % that the guide allows of a score.
    """
    rng = np.random.default_rng(seed)
    sizes = {"train": 1176, "test": 800}
    return {
        part: _sentences(config, rng, rng.integers(2, config["max_length"] + 1, size))
        for part, size in sizes.items()
    }


def metric(outputs, inputs):
    """Over the whole test set: how many are right, and how sure the model is of what is right."""
    logits, labels = outputs["logits"].astype(np.float64), inputs["labels"]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    right = logits.argmax(axis=1) == labels
    return {
        "accuracy": float(right.mean()),
        "mean_share_of_right": float(shares[np.arange(len(labels)), labels].mean()),
    }


def _sentences(config, rng, lengths):
    """input_ids (N, T) int64, labels (N) int64: the class that most words of a sentence are of."""
    count, longest = len(lengths), config["max_length"]
    ids = rng.integers(1, config["vocabulary"], size=(count, longest))
    ids[np.arange(longest) >= lengths[:, None]] = 0
    votes = [
        np.bincount(row[row > 0] % config["classes"], minlength=config["classes"]) for row in ids
    ]
    return {"input_ids": ids, "labels": np.argmax(votes, axis=1).astype(np.int64)}
