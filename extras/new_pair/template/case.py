"""my_pair: what both sides are built from and fed with (NumPy only).

Five edits make this pair yours; examples/text_classifier is one that is finished.
"""

import numpy as np

# 3. The configuration that `build` gets on both sides; other presets beside "default" if you like.
CONFIGS = {"default": {"features": 8, "width": 16, "classes": 3, "dropout": 0.1}}

# 2. Paddle name: torch name, for modules and parameters that are called otherwise in the port.
RENAME = {}


def make_inputs(config, seed):
    """3. One batch: what forward takes, by its argument names, and what the loss takes beside it.

    Let it reach the edges: full and short rows, padding alone, ties, a class without a sample.
    """
    return _samples(config, np.random.default_rng(seed), 6)


def make_data(config, seed):
    """5. Two small sets of such samples, for steps 2 and 5; the labels are called "labels"."""
    rng = np.random.default_rng(seed)
    return {"train": _samples(config, rng, 512), "test": _samples(config, rng, 800)}


# 5. How step 5 trains; what is left out is Adam at 1e-3, constant, 3 epochs of batches of 32.
optimizer = {"epochs": 3, "batch_size": 16, "lr": 1e-2}


def _samples(config, rng, count):
    """features (count, F) float, labels (count) int64"""
    features = rng.standard_normal((count, config["features"]))
    return {"features": features, "labels": features[:, : config["classes"]].argmax(axis=1)}
