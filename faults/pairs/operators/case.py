"""Correct pairs of single operators at their limits; a case is one operator on one hard input.

Long sums, sizes from 1e-30 to 1e15, cancellation, saturation, attributes that Paddle keeps in
float32, and outputs of which most are zero.  B rows, N values a row, C channels, S image size.
"""

import numpy as np

_LONG = {"rows": 2, "size": 100_000}


def _case(operator, draw="normal", scale=1.0, **more):
    shape = {"rows": more.pop("rows", 5), "size": more.pop("size", 64)}
    return {
        "config": {"operator": operator, "loss_scale": 1.0, **more},
        "inputs": {"draw": draw, "scale": scale, **shape},
    }


CASES = {
    "default": {
        # the first case also takes step 4's optimizer steps
        "selu": _case("selu"),
        "pow": _case("pow", scale=3.0),
        "elu": _case("elu"),
        "hardsigmoid": _case("hardsigmoid", scale=3.0),
        "label_smooth": _case("label_smooth"),
        "avg_pool2d": _case("avg_pool2d", size=192),
        "layer_norm_tiny_variance": _case("layer_norm", scale=1e-4),
        "layer_norm_huge_mean": _case("layer_norm", draw="offset", scale=1.0),
        "sum_long": _case("sum", **_LONG),
        "sum_long_positive": _case("sum", draw="uniform", **_LONG),
        "mean_long": _case("mean", draw="uniform", **_LONG),
        "var_long": _case("var", draw="uniform", **_LONG),
        "std_offset": _case("std", draw="offset", **_LONG),
        "norm_long": _case("norm", **_LONG),
        "logsumexp_long": _case("logsumexp", **_LONG),
        "softmax_long": _case("softmax", scale=3.0, **_LONG),
        # shorter: Paddle's takes the square of the length
        "log_softmax_long": _case("log_softmax", scale=3.0, rows=2, size=16_384),
        "cumsum_long": _case("cumsum", draw="uniform", **_LONG),
        "dot_long": _case("dot", **_LONG),
        "layer_norm_long": _case("layer_norm", draw="uniform", **_LONG),
        "sum_million": _case("sum", draw="uniform", rows=1, size=1_000_000),
        "cancelling_sum": _case("sum", draw="cancelling", scale=1e7),
        "cancelling_difference": _case("difference", scale=1e5),
        "softmax_saturated": _case("softmax", scale=1e3),
        "tanh_saturated": _case("tanh", scale=50.0),
        "sigmoid_saturated": _case("sigmoid", scale=50.0),
        "tiny_1e-20": _case("mix", scale=1e-20),
        "tiny_1e-30": _case("scale", scale=1e-30),
        "large_1e15": _case("mix", scale=1e15),
        "denormals": _case("scale", scale=1e-41),
        "relu_dead": _case("relu_dead"),
        "gates_closed": _case("gate", scale=1.0),
        "exp_large": _case("exp", scale=8.0),
        "log_small": _case("log", draw="uniform", scale=1e-6),
        "sin_large": _case("sin", scale=1e4),
        "erf_tail": _case("erf", scale=4.0),
        "divide_small": _case("divide", scale=1.0),
        "sqrt_near_zero": _case("sqrt", draw="uniform", scale=1e-8),
        "normalize_tiny": _case("normalize", scale=1e-2),
        "cosine": _case("cosine"),
        "gelu_tail": _case("gelu", scale=4.0),
        "silu": _case("silu", scale=4.0),
        "softplus": _case("softplus", scale=10.0),
        "group_norm": _case("group_norm", size=192),
        "max_pool": _case("max_pool", size=192),
        "loss_large": _case("mix", loss_scale=1e6),
        "loss_small": _case("mix", loss_scale=1e-12),
        "leaky_relu": _case("leaky_relu"),
        "celu": _case("celu"),
        "thresholded_relu": _case("thresholded_relu"),
        "exp_complex": _case("exp_complex", scale=3.0),
        "sigmoid_complex": _case("sigmoid_complex"),
        "lp_pool1d": _case("lp_pool1d", size=192),
        "lp_pool2d": _case("lp_pool2d", size=192),
        "digamma": _case("digamma"),
        "mish": _case("mish", scale=3.0),
        "hardswish": _case("hardswish", scale=3.0),
        "clip": _case("clip", scale=3.0),
        "prod": _case("prod", draw="uniform"),
        "smooth_l1": _case("smooth_l1"),
        "kl": _case("kl"),
        "interpolate": _case("interpolate", size=192),
    }
}
CONFIGS = {name: {} for name in CASES}  # a case says all of it


def make_inputs(config, seed, draw="normal", scale=1.0, rows=5, size=64):
    """x, other (B, N) float, as `draw` says and `scale` times that"""
    rng = np.random.default_rng(seed)
    if draw == "uniform":
        x = rng.random((rows, size))
    elif draw == "offset":
        x = 100.0 + 0.1 * rng.standard_normal((rows, size))
    elif draw == "cancelling":
        half = rng.standard_normal((rows, size // 2))
        x = np.concatenate([half, -half], axis=1)
        x = rng.permuted(x, axis=1) + rng.standard_normal((rows, size)) / scale
    else:
        x = rng.standard_normal((rows, size))
    other = rng.standard_normal((rows, size))
    return {"x": (scale * x).astype(np.float32), "other": other.astype(np.float32)}
