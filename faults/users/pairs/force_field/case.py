"""Forces as the gradient of an energy, in forward and so in the loss."""

import numpy as np

CONFIGS = {"default": {"kinds": 3, "width": 8, "bases": 5}}


def make_inputs(config, seed):
    """places (B, N, 3) float, kinds (B, N), energy (B) and forces (B, N, 3) float: the labels"""
    rng = np.random.default_rng(seed)
    places = np.arange(4)[:, None] + 0.4 * rng.standard_normal((3, 4, 3))
    kinds = rng.integers(0, config["kinds"], (3, 4))
    energy, forces = rng.standard_normal(3), rng.standard_normal((3, 4, 3))
    return {"places": places, "kinds": kinds, "energy": energy, "forces": forces}
