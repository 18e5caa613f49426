"""Two models for half precision: an encoder and an image model, and ways to write the same.

A case's `way` is how the port writes a part of it (WAYS of paddle_model.py); the reference is the
same in all of them, and no way is less exact than it is.
"""

import numpy as np

ENCODER = {"kind": "encoder", "width": 64, "heads": 4, "layers": 2, "vocabulary": 50}
VISION = {"kind": "vision", "width": 32, "layers": 3, "classes": 40}

# Of the ways' names in paddle_model.py.
OF_ENCODER = (
    "as_torch",
    "queries_scaled",
    "softmax_in_parts",
    "scores_by_einsum",
    "scores_in_float32",
    "masked_by_where",
    "one_projection",
    "norm_in_parts",
    "gelu_in_parts",
    "residual_in_float32",
    "mean_by_matmul",
)
OF_VISION = (
    "as_torch",
    "batch_norm_in_parts",
    "batch_norm_folded",
    "group_norm_in_parts",
    "squeeze_by_pooling",
    "gate_in_parts",
    "hardswish_in_parts",
    "sum_of_stack",
    "length_by_sum",
    "pointwise_by_matmul",
    "channels_last",
)

CASES = {
    "default": {
        "encoder": {"config": {**ENCODER, "way": "as_torch"}},
        "vision": {"config": {**VISION, "way": "as_torch"}},
    },
    "encoder": {way: {"config": {**ENCODER, "way": way}} for way in OF_ENCODER},
    "vision": {way: {"config": {**VISION, "way": way}} for way in OF_VISION},
}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def make_inputs(config, seed):
    """tokens, mask (B, T) int64, 1 = keep, or images (B, 3, S, S); labels (B) int64"""
    rng = np.random.default_rng(seed)
    if config["kind"] == "vision":
        images = rng.standard_normal((4, 3, 12, 12)).astype(np.float32)
        return {"images": images, "labels": rng.integers(0, config["classes"], 4)}
    mask = (np.arange(16) < np.arange(16, 4, -1)[:, None]).astype(np.int64)
    tokens = rng.integers(1, config["vocabulary"], mask.shape) * mask
    return {"tokens": tokens, "mask": mask, "labels": np.roll(tokens, 1, axis=1)}
