"""Correct models that cast to float32 inside, as today's do; see the classes in torch_model.py."""

import numpy as np


def _case(kind):
    sizes = {"width": 16, "heads": 4, "layers": 2, "vocabulary": 40}
    return {"config": {"kind": kind, **sizes}}


def _large(kind, length=30):
    sizes = {"width": 64, "heads": 4, "layers": 2, "vocabulary": 40}
    return {"config": {"kind": kind, **sizes}, "inputs": {"length": length}}


CASES = {
    "default": {
        # the first case also takes step 4's optimizer steps
        "decoder": _case("decoder"),
        "relative": _case("relative"),
        "shared": _case("shared"),
        "one_sided": _case("one_sided"),
        "tables": _case("tables"),
        "complex": _case("complex"),
    },
    # larger, for what half precision makes of it
    "half": {
        "decoder": _large("decoder"),
        "long": _large("decoder", 200),
        "relative": _large("relative"),
        "shared": _large("shared"),
        "tables": _large("tables"),
    },
    # each kind's optimizer steps are a run of their own
    "relative": {"relative": _case("relative")},
    "one_sided": {"one_sided": _case("one_sided")},
}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def make_inputs(config, seed, length=9):
    """tokens (B, T) int64; mask (B, T) int64, 1 = keep; labels (B, T) int64"""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, config["vocabulary"], size=(3, length))
    mask = np.ones_like(tokens)
    mask[1, 6:] = 0  # on the right: every query of a decoder sees a key
    mask[2, 2:] = 0
    return {"tokens": tokens * mask, "mask": mask, "labels": np.roll(tokens, -1, axis=1)}
