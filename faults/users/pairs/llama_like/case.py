"""RMSNorm, rotary positions and softmax lifted to float32, grouped queries, a gated MLP."""

import numpy as np

CONFIGS = {
    "default": {
        "words": 30,
        "width": 16,
        "heads": 4,
        "kv_heads": 2,
        "inner": 24,
        "layers": 2,
        "base": 10000.0,
        "eps": 1e-6,
    }
}


def make_inputs(config, seed):
    """input_ids (B, T), attention_mask (B, T) int64"""
    rng = np.random.default_rng(seed)
    mask = (np.arange(9) < np.array([9, 5])[:, None]).astype(np.int64)
    return {"input_ids": rng.integers(0, config["words"], (2, 9)), "attention_mask": mask}
