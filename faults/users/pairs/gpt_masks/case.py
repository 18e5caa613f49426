"""A small GPT: position ids (1, T) or (B, T), a causal mask by triu or comparing, tied head."""

import numpy as np

CONFIGS = {"default": {"words": 24, "places": 10, "width": 8, "heads": 2, "layers": 2}}


def make_inputs(config, seed):
    """ids (B, T), keep (B, T) int64"""
    rng = np.random.default_rng(seed)
    keep = (np.arange(8) < np.array([8, 6, 3])[:, None]).astype(np.int64)
    return {"ids": rng.integers(1, config["words"], (3, 8)) * keep, "keep": keep}
