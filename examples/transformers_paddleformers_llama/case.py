"""LLaMA and Phi-3 of transformers (torch) against those of PaddleFormers, each as it is published.

NumPy only.  `model` names the classes; the other keys are those that both packages' configurations
take.
"""

import numpy as np

_BASE = {
    "model": "Llama",
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,  # grouped queries
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "use_cache": False,
}

CONFIGS = {
    "default": _BASE | {"rope_theta": 10500.0},
    "tied": _BASE | {"rope_theta": 10000.0, "tie_word_embeddings": True},
    "phi3": _BASE | {"model": "Phi3", "rope_theta": 10000.0, "rms_norm_eps": 1e-5},
}


def make_inputs(config, seed):
    """input_ids, attention_mask (1 = keep), labels: each (B, T) int64; short rows end in padding"""
    rng = np.random.default_rng(seed)
    lengths = np.array([12, 7, 1])
    mask = (np.arange(lengths[0]) < lengths[:, None]).astype(np.int64)
    ids = rng.integers(3, config["vocab_size"], mask.shape) * mask
    return {"input_ids": ids, "attention_mask": mask, "labels": np.where(mask == 1, ids, -100)}
