"""A variational autoencoder: its noise is drawn in forward, in both modes."""

import numpy as np

CONFIGS = {"default": {"pixels": 12, "width": 8, "latent": 3}}


def make_inputs(config, seed):
    """x (B, P) float in [0, 1]"""
    return {"x": np.random.default_rng(seed).random((4, config["pixels"]))}
