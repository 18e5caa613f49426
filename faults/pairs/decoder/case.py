"""A small language model with a key-value cache, for twincheck check-generate."""

import numpy as np

SIZES = {"vocab_size": 40, "width": 16, "heads": 2, "layers": 2, "max_position_embeddings": 64}
# ties: each token has a second one whose logit is larger by so little that float32 cannot tell.
CONFIGS = {"default": SIZES | {"ties": 0.0}, "ties": SIZES | {"ties": 1e-9}}


def make_inputs(config, seed):
    """input_ids and attention_mask (B, T) int64, 1 = keep"""
    rng = np.random.default_rng(seed)
    mask = (np.arange(7) < np.array([7, 5, 2])[:, None]).astype(np.int64)
    return {"input_ids": rng.integers(1, config["vocab_size"], mask.shape), "attention_mask": mask}
