"""Operators in half precision: Paddle's, emulated, beside torch's own kernels on a CPU.

Each operator gets the same rounded values on both sides, forward and gradient.  An error is the
root mean square of the distance from torch's float64, as a part of that result's own; 0.2 of the
precision's epsilon is what one rounding of the result makes.
"""

from collections.abc import Iterator, Sequence
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
    "add": (torch.add, paddle.add, "nn"),
    "subtract": (torch.sub, paddle.subtract, "nn"),
    "multiply": (torch.mul, paddle.multiply, "nn"),
    "divide": (torch.div, paddle.divide, "nx"),
    "pow(2)": (lambda a: a.pow(2), lambda a: a.pow(2), "n"),
    "sqrt": (torch.sqrt, paddle.sqrt, "x"),
    "rsqrt": (torch.rsqrt, paddle.rsqrt, "x"),
    "exp": (torch.exp, paddle.exp, "n"),
    "log": (torch.log, paddle.log, "x"),
    "sin": (torch.sin, paddle.sin, "n"),
    "cos": (torch.cos, paddle.cos, "n"),
    "erf": (torch.erf, paddle.erf, "n"),
    "tanh": (torch.tanh, paddle.tanh, "n"),
    "sigmoid": (torch.sigmoid, paddle_nn.sigmoid, "n"),
    "relu": (torch_nn.relu, paddle_nn.relu, "n"),
    "elu": (torch_nn.elu, paddle_nn.elu, "n"),
    "gelu": (torch_nn.gelu, paddle_nn.gelu, "n"),
    "gelu, tanh": (
        lambda a: torch_nn.gelu(a, approximate="tanh"),
        lambda a: paddle_nn.gelu(a, approximate=True),
        "n",
    ),
    "silu": (torch_nn.silu, paddle_nn.silu, "n"),
    "softplus": (torch_nn.softplus, paddle_nn.softplus, "n"),
    "hardswish": (torch_nn.hardswish, paddle_nn.hardswish, "n"),
    "sum": (lambda a: a.sum(-1), lambda a: a.sum(-1), "n"),
    "mean": (lambda a: a.mean(-1), lambda a: a.mean(-1), "n"),
    "var": (lambda a: a.var(-1), lambda a: a.var(-1), "n"),
    "max": (lambda a: a.amax(-1), lambda a: a.max(-1), "n"),
    "cumsum": (lambda a: a.cumsum(-1), lambda a: a.cumsum(-1), "n"),
    "logsumexp": (lambda a: a.logsumexp(-1), lambda a: a.logsumexp(-1), "n"),
    "softmax": (lambda a: torch_nn.softmax(a, -1), lambda a: paddle_nn.softmax(a, -1), "n"),
    "log_softmax": (
        lambda a: torch_nn.log_softmax(a, -1),
        lambda a: paddle_nn.log_softmax(a, -1),
        "n",
    ),
    "layer_norm": (
        lambda a: torch_nn.layer_norm(a, [WIDTH]),
        lambda a: paddle_nn.layer_norm(a, [WIDTH]),
        "n",
    ),
    "matmul": (torch.matmul, paddle.matmul, "ns"),
    "linear": (torch_nn.linear, lambda a, b: paddle_nn.linear(a, b.T), "ns"),
    "einsum": (
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
        lambda a, b: paddle.einsum("ij,jk->ik", a, b),
        "ns",
    ),
    "conv2d": (
        lambda a, b: torch_nn.conv2d(a, b, padding=1),
        lambda a, b: paddle_nn.conv2d(a, b, padding=1),
        "ik",
    ),
    "avg_pool2d": (
        lambda a: torch_nn.avg_pool2d(a, 2),
        lambda a: paddle_nn.avg_pool2d(a, 2),
        "i",
    ),
    "max_pool2d": (
        lambda a: torch_nn.max_pool2d(a, 2),
        lambda a: paddle_nn.max_pool2d(a, 2),
        "i",
    ),
    "group_norm": (
        lambda a: torch_nn.group_norm(a, 2),
        lambda a: paddle.nn.GroupNorm(2, 4)(a),  # without weights its gradient is wrong
        "i",
    ),
    "interpolate": (
        lambda a: torch_nn.interpolate(a, scale_factor=2, mode="bilinear"),
        lambda a: paddle_nn.interpolate(a, scale_factor=2, mode="bilinear"),
        "i",
    ),
    "transpose": (lambda a: a.T, lambda a: a.T, "n"),
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
