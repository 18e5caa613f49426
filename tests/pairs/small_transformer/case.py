"""A user's own pair, for the tests: the frameworks' own transformer layers, and tied embeddings."""

import numpy as np

CONFIGS = {"default": {"vocab_size": 13, "channels": 8, "heads": 2, "hidden": 12, "layers": 2}}


def make_inputs(config, seed):
    """source (B, S), target (B, T), labels (B, T): int64"""
    rng = np.random.default_rng(seed)

    def ids(tokens):
        return rng.integers(0, config["vocab_size"], size=(2, tokens))

    return {"source": ids(5), "target": ids(4), "labels": ids(4)}
