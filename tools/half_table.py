"""Operators in half precision: Paddle's, emulated, beside torch's own kernels on a CPU.

Each operator gets the same rounded values on both sides, forward and gradient.  An error is the
root mean square of the distance from torch's float64, as a part of that result's own; 0.2 of the
precision's epsilon is what one rounding of the result makes.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from typing import NamedTuple

import numpy as np
import paddle
import torch
from paddle.nn import functional as paddle_nn
from torch.nn import functional as torch_nn

from twincheck.common.sides.half_in_paddle import Emulation
from twincheck.common.system.half import rounded
from twincheck.common.verdict.measures import rms

ROWS, WIDTH = 32, 48
# Name -> torch's, Paddle's, how many arguments; `x` positive values, `s` a square, `i` an image.
OPERATORS = {
    **{
        name: (getattr(ours, name), getattr(theirs, name), kinds)
        for names, kinds, ours, theirs in (
            ("add subtract multiply divide", "nn", torch, paddle),
            ("sqrt rsqrt log", "x", torch, paddle),
            ("exp sin cos erf tanh", "n", torch, paddle),
            ("sigmoid relu elu gelu silu softplus hardswish", "n", torch_nn, paddle_nn),
            ("matmul", "ns", torch, paddle),
        )
        for name in names.split()
    },
    **{
        name: (methodcaller(name, -1), methodcaller(name, -1), "n")
        for name in ("sum", "mean", "var", "cumsum", "logsumexp")
    },
    "pow(2)": (methodcaller("pow", 2), methodcaller("pow", 2), "n"),
    "gelu, tanh": (
        partial(torch_nn.gelu, approximate="tanh"),
        partial(paddle_nn.gelu, approximate=True),
        "n",
    ),
    "max": (methodcaller("amax", -1), methodcaller("max", -1), "n"),
    "softmax": (partial(torch_nn.softmax, dim=-1), partial(paddle_nn.softmax, axis=-1), "n"),
    "log_softmax": (
        partial(torch_nn.log_softmax, dim=-1),
        partial(paddle_nn.log_softmax, axis=-1),
        "n",
    ),
    "layer_norm": (
        partial(torch_nn.layer_norm, normalized_shape=[WIDTH]),
        partial(paddle_nn.layer_norm, normalized_shape=[WIDTH]),
        "n",
    ),
    "linear": (torch_nn.linear, lambda a, b: paddle_nn.linear(a, b.T), "ns"),
    "einsum": (partial(torch.einsum, "ij,jk->ik"), partial(paddle.einsum, "ij,jk->ik"), "ns"),
    "conv2d": (partial(torch_nn.conv2d, padding=1), partial(paddle_nn.conv2d, padding=1), "ik"),
    **{
        name: (
            partial(getattr(torch_nn, name), kernel_size=2),
            partial(getattr(paddle_nn, name), kernel_size=2),
            "i",
        )
        for name in ("avg_pool2d", "max_pool2d")
    },
    "group_norm": (
        partial(torch_nn.group_norm, num_groups=2),
        lambda a: paddle.nn.GroupNorm(2, 4)(a),  # without weights its gradient is wrong
        "i",
    ),
    "interpolate": (
        partial(torch_nn.interpolate, scale_factor=2, mode="bilinear"),
        partial(paddle_nn.interpolate, scale_factor=2, mode="bilinear"),
        "i",
    ),
    "transpose": (attrgetter("T"), attrgetter("T"), "n"),
    "concat": (lambda a, b: torch.cat([a, b]), lambda a, b: paddle.concat([a, b]), "nn"),
    "slice": (lambda a: a[1:, ::2], lambda a: a[1:, ::2], "n"),
    "where": (
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: paddle.where(a > 0, a, b),
        "nn",
    ),
}


class Measured(NamedTuple):
    """Errors of one operator: torch's and Paddle's result, torch's and Paddle's gradient."""

    name: str
    torch: float
    paddle: float
    torch_gradient: float
    paddle_gradient: float

    @property
    def worst(self) -> float:
        """Paddle's error over torch's, the larger of result and gradient; 1 where both are 0."""
        pairs = ((self.paddle, self.torch), (self.paddle_gradient, self.torch_gradient))
        return max(1.0 if not a else a / b if b else np.inf for a, b in pairs)


def measured(dtype: str, seed: int = 0) -> Iterator[Measured]:
    """Every operator of the table, in half precision on both sides."""
    emulation = Emulation()
    for name, (on_torch, on_paddle, kinds) in OPERATORS.items():
        rng = np.random.default_rng(seed)
        arrays = [rounded(_values(rng, kind), dtype) for kind in kinds]
        exact = _torch(on_torch, arrays, torch.float64)
        ref = _torch(on_torch, arrays, getattr(torch, dtype))
        with emulation.on():
            cand = _paddle(on_paddle, arrays, dtype)
        pairs = [(_error(r, e), _error(c, e)) for r, c, e in zip(ref, cand, exact, strict=True)]
        yield Measured(name, *pairs[0], *pairs[1])


def _values(rng: np.random.Generator, kind: str) -> np.ndarray:
    shapes = {"s": (WIDTH, WIDTH), "i": (2, 4, 8, 8), "k": (3, 4, 3, 3)}
    values = rng.standard_normal(shapes.get(kind, (ROWS, WIDTH)))
    return np.abs(values) + 0.1 if kind == "x" else values


def _weights(shape: Sequence[int]) -> np.ndarray:
    """The gradient that comes back to a result."""
    return np.random.default_rng(1).standard_normal(tuple(shape))


def _torch(operator, arrays: Sequence[np.ndarray], dtype) -> tuple[np.ndarray, np.ndarray]:
    """Its result, and the gradient that comes back to the first argument."""
    tensors = [torch.tensor(values).to(dtype).requires_grad_() for values in arrays]
    result = operator(*tensors)
    result.backward(torch.tensor(_weights(result.shape)).to(dtype))
    return tuple(v.detach().double().numpy() for v in (result, tensors[0].grad))


def _paddle(operator, arrays: Sequence[np.ndarray], dtype) -> tuple[np.ndarray, np.ndarray]:
    tensors = [paddle.to_tensor(values).astype(dtype) for values in arrays]
    for tensor in tensors:
        tensor.stop_gradient = False
    result = operator(*tensors)
    result.backward(paddle.to_tensor(_weights(result.shape)).astype(dtype))
    return tuple(v.detach().astype("float64").numpy() for v in (result, tensors[0].grad))


def _error(values: np.ndarray, exact: np.ndarray) -> float:
    return rms(values - exact) / (rms(exact) or 1.0)
