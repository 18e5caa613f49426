"""Shared layers over points: convolutions of width 1 in the reference, Linear in the port."""

import numpy as np

CONFIGS = {"default": {"width": 8, "classes": 3}}


def convert(state):
    """Linear for Conv1d of kernel 1."""
    return {f"lift{i}.weight": state[f"lift{i}.weight"][..., 0].T for i in (1, 2)}


def make_inputs(config, seed):
    """points (B, N, 3) float, labels (B)"""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((4, 9, 3))
    return {"points": points, "labels": rng.integers(0, config["classes"], 4)}
