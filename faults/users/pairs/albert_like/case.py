"""Factorized embeddings, one layer for every depth: called again, or listed again, post-norm."""

import numpy as np

CONFIGS = {"default": {"words": 25, "small": 4, "width": 8, "heads": 2, "depth": 3}}
RENAME = {f"embeddings.{name}": name for name in ("words", "kinds", "places", "norm")}


def make_inputs(config, seed):
    """ids, kinds (B, T), labels (B, T): one in three is to be guessed, the others -100"""
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, config["words"], (3, 9))
    labels = np.where(np.arange(9) % 3 == 1, ids, -100)
    return {"ids": ids, "kinds": np.tile(np.arange(9) > 4, (3, 1)).astype(int), "labels": labels}
