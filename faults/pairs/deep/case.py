"""The built-in models with 12 layers, in eval and train mode: correct, deep, and run with
--weights trained-like under several seeds."""

import importlib

_FASTFORMER = {"model": "fastformer", "num_hidden_layers": 12}
_FAST_TRANSFORMER = {"model": "fast_transformer", "depth": 12}
_REFORMER = {
    "model": "reformer",
    "head": "masked_lm",
    "is_decoder": False,
    "attn_layers": ["lsh", "local"] * 6,
}

CASES = {
    "default": {
        # The first case also takes step 4's optimizer steps.
        "fastformer": {"config": {**_FASTFORMER, "num_hidden_layers": 3}},
        "fastformer_12": {"config": _FASTFORMER},
        "fastformer_12_train": {"config": _FASTFORMER, "train": True},
        "fast_transformer_12": {"config": _FAST_TRANSFORMER},
        "fast_transformer_12_rows": {
            "config": {**_FAST_TRANSFORMER, "head": "classification"},
            "inputs": {"masked_rows": True},
        },
        "reformer_12": {"config": _REFORMER, "inputs": {"mask": "none"}},
        "reformer_12_train": {
            "config": _REFORMER,
            "inputs": {"mask": "none", "length": 48},
            "train": True,
        },
    }
}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def _of(config):
    """The built-in pair's case.py, and its configuration."""
    case = importlib.import_module(f"twincheck.common.models.{config['model']}.case")
    own = {key: value for key, value in config.items() if key != "model"}
    return case, {**case.CONFIGS["default"], **own}


def make_inputs(config, seed, **inputs):
    """The built-in pair's own inputs."""
    case, own = _of(config)
    return case.make_inputs(own, seed, **inputs)
