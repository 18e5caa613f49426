"""Correct models that choose, at near ties: every second candidate is the one before it, but for
less than float32's noise.  See the classes in torch_model.py."""

import numpy as np


def _case(kind, **inputs):
    return {"config": {"kind": kind}, "inputs": inputs}


CASES = {
    "default": {
        # the first case also takes step 4's optimizer steps
        "experts": _case("experts"),
        "codebook": _case("codebook"),
        "pruned": _case("pruned"),
        "pruned_masked": _case("pruned", masked=True),
        "sorted": _case("sorted"),
        "hashed": _case("hashed"),
        "asked": _case("asked"),
        "largest_of_all": _case("largest_of_all"),
        "experts_apart": _case("experts", apart=1.0),
    }
}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def make_inputs(config, seed, apart=1e-8, masked=False):
    """x (B, T, C) float, keep (B, T) int64, labels (B) int64

    Every second of the T tokens is its neighbour, `apart` N(0, 1) off.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 24, 16))
    x[:, 1::2] = x[:, ::2] + apart * rng.standard_normal((4, 12, 16))
    keep = np.ones((4, 24), np.int64)
    if masked:
        keep[:, 18:] = 0
    labels = rng.integers(0, 5, size=4)
    return {"x": x.astype(np.float32), "keep": keep, "labels": labels}
