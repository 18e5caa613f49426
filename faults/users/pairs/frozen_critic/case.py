"""An actor whose loss goes through a critic that is frozen meanwhile, as in DDPG."""

import numpy as np

CONFIGS = {"default": {"width": 6}}


def make_inputs(config, seed):
    """state, chosen (B, D) float, target (B) float"""
    rng = np.random.default_rng(seed)
    state, chosen = rng.standard_normal((2, 5, config["width"]))
    return {"state": state, "chosen": chosen, "target": rng.standard_normal(5)}
