"""What Paddle is slow at on a CPU, done otherwise for models that allow it: the built-in ones.

Views: it reads a transposed tensor or a slice value by value, which takes five times as long as a
copy at once.  The copies have the same values; but an operator in place does not write through one.

Where no probe looks, as in a training, three operators compute the same terms in another order:

linear        its bias's gradient, a sum over rows, takes thirty times as long as a product with
              ones
LayerNorm     its gradients take twice as long as their formulas, in which sums are products too
log_softmax   takes twenty times as long as torch's, four times as long as its formula
"""

import numpy as np
import paddle
from paddle.autograd import PyLayer
from paddle.nn import functional as F

from twincheck.common.sides.session import current
from twincheck.common.system.intercept import Intercept, as_handle

_VIEWS = paddle.get_flags("FLAGS_use_stride_kernel")


def make_quick(wanted: bool) -> None:
    """Compute the quick way from now on, or Paddle's own."""
    paddle.set_flags({flag: on and not wanted for flag, on in _VIEWS.items()})
    _WAY.put() if wanted else _WAY.take_away()


def _may_differ(*inputs) -> bool:
    """Return whether gradients may be computed another way: nothing looks, and all are wanted."""
    if current().probing or not paddle.is_grad_enabled():
        return False
    return not any(value is None or value.stop_gradient for value in inputs)


def _sum_of_rows(rows):
    """(N, C) -> (C)"""
    return paddle.matmul(paddle.ones([1, rows.shape[0]], dtype=rows.dtype), rows).squeeze(0)


class _AddBias(PyLayer):
    """x (..., C) + bias (C)."""

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, gradient):
        return gradient, _sum_of_rows(gradient.reshape([-1, gradient.shape[-1]]))


def _linear(own, x, weight, bias=None, name=None):
    """`F.linear`: x (..., D), weight (D, C), bias (C) -> (..., C)."""
    if not _may_differ(weight, bias):
        return own(x, weight, bias, name)
    return _AddBias.apply(paddle.matmul(x, weight), bias)


class _Normalize(PyLayer):
    """y = n * weight + bias for x (..., C), n = (x - mean) / sqrt(variance + epsilon)."""

    @staticmethod
    def forward(ctx, x, weight, bias, epsilon):
        ctx.save_for_backward(x, weight)
        ctx.epsilon = float(np.float32(epsilon))  # as Paddle's own takes it, in float64 too
        return F.layer_norm(x, x.shape[-1], weight, bias, epsilon)

    @staticmethod
    def backward(ctx, gradient):
        """With h = gradient * weight: dx = (h - mean(h) - n * mean(h * n)) / deviation."""
        x, weight = ctx.saved_tensor()
        width = x.shape[-1]
        x, g = x.reshape([-1, width]), gradient.reshape([-1, width])  # (N, C)
        average = paddle.full([width, 1], 1.0 / width, dtype=x.dtype)
        weighted = average * weight.unsqueeze(1)
        # In place, since half the time of such a pass is that for new memory.
        n = x - paddle.matmul(x, average)
        scale = paddle.rsqrt(paddle.matmul(n * n, average) + ctx.epsilon)  # (N, 1)
        n.multiply_(scale)
        g_n = g * n
        of_weight, of_bias = _sum_of_rows(g_n), _sum_of_rows(g)
        n.multiply_(paddle.matmul(g_n, weighted))
        of_x = (g * weight).subtract_(n).subtract_(paddle.matmul(g, weighted)).multiply_(scale)
        return of_x.reshape(gradient.shape), of_weight, of_bias


def _layer_norm(own, layer, x):
    """`nn.LayerNorm.forward`."""
    if len(layer._normalized_shape) > 1 or not _may_differ(x, layer.weight, layer.bias):
        return own(layer, x)
    return _Normalize.apply(x, layer.weight, layer.bias, layer._epsilon)


def _log_softmax(own, x, axis=-1, dtype=None, name=None):
    """`F.log_softmax`: x (..., C, ...) -> the same shape."""
    if dtype is not None or current().probing:
        return own(x, axis, dtype, name)
    moved = x - paddle.amax(x.detach(), axis=axis, keepdim=True)
    return moved - paddle.log(paddle.sum(paddle.exp(moved), axis=axis, keepdim=True))


_WAY = Intercept(
    paddle,
    {
        "nn.functional.linear": as_handle(_linear),
        "nn.LayerNorm.forward": as_handle(_layer_norm),
        "nn.functional.log_softmax": as_handle(_log_softmax),
    },
)
