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

from twincheck.common.sides.half_in_paddle import Emulation
from twincheck.common.system.half import rounded
from twincheck.common.verdict.measures import rms

ROWS, WIDTH = 32, 48
# Arguments -> the calls that take them: `n` any values, `x` positive, `s` a square, `i` an image,
# `k` a kernel.  p is the framework, F its nn.functional, a and b the arguments.
_CALLS = {
    "nn": "p.add(a, b); p.subtract(a, b); p.multiply(a, b); p.divide(a, b); p.where(a > 0, a, b)",
    "x": "p.sqrt(a); p.rsqrt(a); p.log(a)",
    "n": "p.exp(a); p.sin(a); p.cos(a); p.erf(a); p.tanh(a); F.sigmoid(a); F.relu(a); F.elu(a);"
    "F.gelu(a); F.silu(a); F.softplus(a); F.hardswish(a); a.sum(-1); a.mean(-1); a.var(-1);"
    "a.cumsum(-1); a.logsumexp(-1); a.pow(2); F.softmax(a, -1); F.log_softmax(a, -1);"
    "F.layer_norm(a, [48]); a.T; a[1:, ::2]",
    "ns": "p.matmul(a, b); p.einsum('ij,jk->ik', a, b)",
    "ik": "F.conv2d(a, b, padding=1)",
    "i": "F.avg_pool2d(a, 2); F.max_pool2d(a, 2);F.interpolate(a, scale_factor=2, mode='bilinear')",
}
# Torch's call, Paddle's, their arguments.
OPERATORS = (
    *((text, text, kinds) for kinds, calls in _CALLS.items() for text in calls.split(";")),
    ("F.gelu(a, approximate='tanh')", "F.gelu(a, approximate=True)", "n"),
    ("a.amax(-1)", "a.max(-1)", "n"),
    ("F.linear(a, b)", "F.linear(a, b.T)", "ns"),
    (
        "F.group_norm(a, 2)",
        "p.nn.GroupNorm(2, 4)(a)",
        "i",
    ),  # F's without weights has another gradient
    ("p.cat([a, b])", "p.concat([a, b])", "nn"),
)


class Measured(NamedTuple):
    """Errors of one operator: torch's and Paddle's result, torch's and Paddle's gradient."""

    call: str
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
    for on_torch, on_paddle, kinds in OPERATORS:
        rng = np.random.default_rng(seed)
        arrays = [rounded(_values(rng, kind), dtype) for kind in kinds]
        exact = _torch(on_torch, arrays, torch.float64)
        ref = _torch(on_torch, arrays, getattr(torch, dtype))
        with emulation.on():
            cand = _paddle(on_paddle, arrays, dtype)
        pairs = [(_error(r, e), _error(c, e)) for r, c, e in zip(ref, cand, exact, strict=True)]
        yield Measured(on_torch.strip(), *pairs[0], *pairs[1])


def _values(rng: np.random.Generator, kind: str) -> np.ndarray:
    shapes = {"s": (WIDTH, WIDTH), "i": (2, 4, 8, 8), "k": (3, 4, 3, 3)}
    values = rng.standard_normal(shapes.get(kind, (ROWS, WIDTH)))
    return np.abs(values) + 0.1 if kind == "x" else values


def _called(framework, call: str, tensors: Sequence):
    """A call's result, and the gradient that comes back to it."""
    names = dict(zip("ab", tensors, strict=False)) | {"p": framework, "F": framework.nn.functional}
    result = eval(call.strip(), names)
    return result, np.random.default_rng(1).standard_normal(tuple(result.shape))


def _torch(call: str, arrays: Sequence[np.ndarray], dtype) -> tuple[np.ndarray, np.ndarray]:
    """Its result, and the gradient that comes back to the first argument."""
    tensors = [torch.tensor(values).to(dtype).requires_grad_() for values in arrays]
    result, gradient = _called(torch, call, tensors)
    result.backward(torch.tensor(gradient).to(dtype))
    return tuple(v.detach().double().numpy() for v in (result, tensors[0].grad))


def _paddle(call: str, arrays: Sequence[np.ndarray], dtype) -> tuple[np.ndarray, np.ndarray]:
    tensors = [paddle.to_tensor(values).astype(dtype) for values in arrays]
    for tensor in tensors:
        tensor.stop_gradient = False
    result, gradient = _called(paddle, call, tensors)
    result.backward(paddle.to_tensor(gradient).astype(dtype))
    return tuple(v.detach().astype("float64").numpy() for v in (result, tensors[0].grad))


def _error(values: np.ndarray, exact: np.ndarray) -> float:
    return rms(values - exact) / (rms(exact) or 1.0)
