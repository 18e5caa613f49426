"""Patches by a convolution in the reference, by reshaping and a Linear in the port."""

import numpy as np

CONFIGS = {"default": {"width": 8, "patch": 4, "size": 8, "heads": 2, "classes": 3}}


def convert(state):
    """The patches' Linear from the convolution."""
    weight = state["patches.weight"]
    return {"patches.weight": weight.reshape(len(weight), -1).T}


def make_inputs(config, seed):
    """images (B, 3, S, S) float, labels (B)"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((3, 3, config["size"], config["size"]))
    return {"images": images, "labels": rng.integers(0, config["classes"], 3)}
