"""Correct transformers: pre- and post-norm, as initialised, trained-like and hostile."""

import math

import numpy as np


def _case(inputs=None, **config):
    return {"config": config, "inputs": inputs or {}}


CASES = {
    "default": {
        # the first case also takes step 4's optimizer steps
        "two_layers_trained": _case(layers=2, width=16, weights="trained", layer_norm_eps=1e-5),
        "post_norm_trained": _case(pre_norm=False, weights="trained"),
        "pre_norm": _case(),
        "pre_norm_trained": _case(weights="trained"),
        "pre_norm_hostile": _case(weights="hostile"),
        "post_norm": _case(pre_norm=False),
        "post_norm_hostile": _case(pre_norm=False, weights="hostile"),
        "epsilon_1e-5_hostile": _case(weights="hostile", layer_norm_eps=1e-5),
        "selu_trained": _case(weights="trained", activation="selu", layer_norm_eps=1e-5),
        "selu_hostile": _case(weights="hostile", activation="selu", layer_norm_eps=1e-5),
        "relu_hostile": _case(weights="hostile", activation="relu"),
        "silu_trained": _case(weights="trained", activation="silu", layer_norm_eps=1e-6),
        "masked_rows": _case({"empty_rows": 1}, weights="trained"),
        "masked_rows_infinite": _case({"empty_rows": 1}, weights="trained", masked=-math.inf),
        "masked_mildly": _case(weights="hostile", masked=-1e4),
        "24_layers_trained": _case(layers=24, weights="trained", layer_norm_eps=1e-5),
        "one_token": _case({"tokens": 1}, weights="trained"),
    }
}
_BACKWARD = (
    "two_layers_trained",
    "post_norm_trained",
    "pre_norm_hostile",
    "selu_trained",
    "selu_hostile",
    "masked_rows_infinite",
)
CASES["backward"] = {name: CASES["default"][name] for name in _BACKWARD}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def make_inputs(config, seed, tokens=12, empty_rows=0):
    """input_ids, attention_mask (B, T) int64, labels (B) int64; rows end in padding"""
    rng = np.random.default_rng(seed)
    input_ids = rng.integers(0, config.get("vocab_size", 50), size=(4, tokens))
    lengths = np.array([tokens, max(1, tokens - 5), max(1, tokens // 2), tokens])
    lengths[4 - empty_rows :] = 0
    attention_mask = (np.arange(tokens) < lengths[:, None]).astype(np.int64)
    labels = rng.integers(0, config.get("num_labels", 6), size=4)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}
