"""The framework's GRU in the reference, its equations in a loop in the port."""

import numpy as np

CONFIGS = {"default": {"features": 4, "width": 6}}


def convert(state):
    """The port's Linears, from the GRU's weights; a row of three gates."""
    return {
        "inputs.weight": state["gru.weight_ih_l0"].T,
        "inputs.bias": state["gru.bias_ih_l0"],
        "states.weight": state["gru.weight_hh_l0"].T,
        "states.bias": state["gru.bias_hh_l0"],
    }


def make_inputs(config, seed):
    """x (B, T, F) float, target (B, T) float"""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 6, config["features"]))
    return {"x": x, "target": x.cumsum(1).mean(-1)}
