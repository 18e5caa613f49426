"""Gains stored less 1, embeddings scaled, a tanh GELU gate, soft-capped logits; float32 casts."""

import numpy as np

CONFIGS = {"default": {"words": 30, "width": 12, "heads": 3, "inner": 16, "layers": 2}}


def make_inputs(config, seed):
    """input_ids (B, T), labels (B, T)"""
    ids = np.random.default_rng(seed).integers(0, config["words"], (2, 7))
    return {"input_ids": ids, "labels": np.concatenate([ids[:, 1:], 0 * ids[:, :1] - 100], 1)}
