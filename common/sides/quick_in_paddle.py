"""What Paddle is slow at on a CPU, done otherwise for models that allow it: the built-in ones.

Views: it reads a transposed tensor or a slice value by value, which takes five times as long as a
copy at once.  The copies have the same values; but an operator in place does not write through one.

Where no probe looks, as in a training, two operators compute the same terms in another order:

linear        its bias's gradient, a sum over rows, takes thirty times as long as a product with
              ones
log_softmax   takes twenty times as long as torch's, four times as long as its formula written out
"""

import paddle
from paddle.nn import functional as F

from common.sides.session import current

_VIEWS = paddle.get_flags("FLAGS_use_stride_kernel")


def make_quick(wanted: bool) -> None:
    """From now on, compute the quick way, or Paddle's own."""
    paddle.set_flags({flag: on and not wanted for flag, on in _VIEWS.items()})
    for name, (own, quick) in _WAYS.items():
        if getattr(F, name) in (own, quick):  # nobody else's
            setattr(F, name, quick if wanted else own)


class _AddBias(paddle.autograd.PyLayer):
    """x (..., C) + bias (C)."""

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, gradient):
        rows = gradient.reshape([-1, gradient.shape[-1]])  # (N, C)
        ones = paddle.ones([1, rows.shape[0]], dtype=rows.dtype)
        return gradient, paddle.matmul(ones, rows).squeeze(0)


def _linear(x, weight, bias=None, name=None):
    """`F.linear`: x (..., D), weight (D, C), bias (C) -> (..., C)."""
    if bias is None or bias.stop_gradient or current().probing or not paddle.is_grad_enabled():
        return _WAYS["linear"][0](x, weight, bias, name)
    return _AddBias.apply(paddle.matmul(x, weight), bias)


def _log_softmax(x, axis=-1, dtype=None, name=None):
    """`F.log_softmax`: x (..., C, ...) -> the same shape."""
    if dtype is not None or current().probing:
        return _WAYS["log_softmax"][0](x, axis, dtype, name)
    moved = x - paddle.amax(x.detach(), axis=axis, keepdim=True)
    return moved - paddle.log(paddle.sum(paddle.exp(moved), axis=axis, keepdim=True))


# An operator's name -> Paddle's own function, and the quick one.
_WAYS = {
    "linear": (F.linear, _linear),
    "log_softmax": (F.log_softmax, _log_softmax),
}
