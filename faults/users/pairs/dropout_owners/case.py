"""Every dropout is a module's of its own in the reference; the framework's layer has them here."""

import numpy as np

CONFIGS = {"default": {"vocabulary": 20, "width": 8, "heads": 2, "layers": 2, "p": 0.25}}

_PARTS = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attended.dense",
    "norm1": "attended.norm",
    "linear1": "wide",
    "linear2": "output.dense",
    "norm2": "output.norm",
}
RENAME = {f"encoder.layers.{i}.{k}": f"blocks.{i}.{v}" for i in range(2) for k, v in _PARTS.items()}


def make_inputs(config, seed):
    """ids (B, T), seen (B, T) bool, True = keep, labels (B); B, T = 3, 4: 2 heads T long are C"""
    rng = np.random.default_rng(seed)
    return {
        "ids": rng.integers(0, config["vocabulary"], (3, 4)),
        "seen": np.arange(4) < np.array([4, 3, 1])[:, None],
        "labels": rng.integers(0, 3, 3),
    }
