"""Three Linears in the reference, one in the port, whose columns are joined by head."""

import numpy as np

CONFIGS = {"default": {"words": 20, "width": 8, "heads": 2}}


def convert(state):
    """(heads, 3, size) columns: query, key and value of a head side by side."""
    heads = CONFIGS["default"]["heads"]
    made = {}
    for kind in ("weight", "bias"):
        parts = [state[f"{name}.{kind}"] for name in ("query", "key", "value")]
        parts = [part.reshape(heads, -1, *part.shape[1:]) for part in parts]
        joined = np.stack(parts, axis=1)
        made[f"qkv.{kind}"] = joined.reshape(-1, *joined.shape[3:]).T
    return made


def make_inputs(config, seed):
    """ids (B, T)"""
    return {"ids": np.random.default_rng(seed).integers(0, config["words"], (3, 7))}
