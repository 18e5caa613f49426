"""Reformer of transformers (torch) against Reformer of PaddleNLP, each as it is published.

NumPy only.  The keys are those that both packages' ReformerConfig take.
"""

import numpy as np

_BASE = {
    "attn_layers": ["local", "lsh", "local", "lsh"],
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "attention_head_size": 16,
    "hidden_size": 32,
    "feed_forward_size": 64,
    "vocab_size": 50,
    "is_decoder": True,
    "axial_pos_shape": [4, 8],
    "axial_pos_embds_dim": [8, 24],
    "max_position_embeddings": 32,
    "lsh_attn_chunk_length": 8,
    "local_attn_chunk_length": 8,
    "num_buckets": 4,
    "num_hashes": 2,
    "hidden_dropout_prob": 0.0,
    "lsh_attention_probs_dropout_prob": 0.0,
    "local_attention_probs_dropout_prob": 0.0,
    "use_cache": False,
}

CONFIGS = {
    "default": _BASE,
    # What differs is one thing at a time.
    "local": _BASE | {"attn_layers": ["local"] * 4},
    "one_hash": _BASE | {"num_hashes": 1},
}

# Both packages refuse to differentiate a Reformer in eval mode: hence train mode, dropout 0.
CASES = {name: {"main": {"weights": "perturbed", "train": True}} for name in CONFIGS}
CASES["default"]["dropout"] = {
    "weights": "perturbed",
    "train": True,
    "config": {
        "hidden_dropout_prob": 0.125,
        "lsh_attention_probs_dropout_prob": 0.125,
        "local_attention_probs_dropout_prob": 0.125,
    },
}


def make_inputs(config, seed):
    """input_ids, attention_mask (1 = keep), labels: each (B, T) int64; T is what training needs."""
    rng = np.random.default_rng(seed)
    tokens = int(np.prod(config["axial_pos_shape"]))
    ids = rng.integers(1, config["vocab_size"], (3, tokens))
    mask = np.ones_like(ids)
    mask[1, tokens - 5 :] = 0
    ids[mask == 0] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": np.where(mask == 1, ids, -100)}
