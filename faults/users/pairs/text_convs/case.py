"""Convolutions over words: of one dimension in the reference, of two in the port, another order."""

import numpy as np

CONFIGS = {"default": {"words": 30, "width": 6, "classes": 4, "sizes": (2, 3, 4)}}


def convert(state):
    """(out, in, k) -> (out, 1, k, in)"""
    names = [f"convs.{i}.weight" for i in range(3)]
    return {name: state[name].transpose(0, 2, 1)[:, None] for name in names}


def make_inputs(config, seed):
    """ids (B, T), labels (B)"""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, config["words"], (4, 9))
    return {"ids": ids, "labels": rng.integers(0, config["classes"], 4)}
