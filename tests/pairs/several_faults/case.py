"""A pair whose Paddle side plants the faults that its configuration names, several at a time."""

import numpy as np

# What is planted -> the rows that must be named as origins in step 1, and in step 4 beside them.
FORWARD = {
    "norm": ["blocks.1.norm"],
    "dict": ["blocks.2/1/low"],
    "tuple": ["blocks.0/1/rest/1"],
    "between": ["blocks.3:in/0"],
    "second_call": ["twice#2"],
    "bias": ["head"],
    "end": ["logits"],
}
PLANTED = {
    "none": [],
    "norm_and_dict": ["norm", "dict"],
    "three": ["norm", "dict", "between"],
    "tuple_and_second_call": ["tuple", "second_call"],
    "between_and_bias": ["between", "bias"],
    "backward_alone": ["detached"],
    "forward_and_backward": ["norm", "detached"],
    "below_a_constant": ["selu", "dict"],
    "below_a_nan": ["nan", "between"],
    "end": ["end", "norm"],
}
CASES = {
    "default": {
        name: {"config": {"faults": faults}, "weights": "perturbed"}
        for name, faults in PLANTED.items()
    }
}
CONFIGS = {"default": {"faults": [], "width": 8, "layers": 4, "num_labels": 3}}


def make_inputs(config, seed):
    """x (B, C) float, labels (B) int64"""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((4, config["width"])).astype(np.float32),
        "labels": rng.integers(0, config["num_labels"], size=4),
    }
