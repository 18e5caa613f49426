"""The exact formulas of Paddle's operators that are inexact in float64 (exact.py uses them).

A formula computes such an operator from Paddle's own exact primitives, gradient included.  It takes
those of Paddle's arguments that it needs, by Paddle's names, and raises Untaken for what it does
not stand for.

Inside `as_kept` the same formula has the constants that Paddle keeps, most of them in float32: it
then computes what Paddle's operator does, its gradient included, up to float64's rounding.  That
shows how much of an operator's difference its constants make, which `left_out` computes.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import paddle

from twincheck.common.system.reasons import Kind
from twincheck.common.transplant.table import Untaken

FORMULAS: dict[str, Callable] = {}  # operator -> its exact formula
BY_PATH: dict[str, tuple[str, Callable]] = {}  # Paddle's name -> operator, and what stands for it
# What Paddle computes in float32, otherwise on other processors -> how far off its result and its
# gradient may be, of the largest value: two roundings; of a place among n values as many times n.
# Measured: half of it at most.
IN_FLOAT32: dict[str, Callable[..., float]] = {
    **dict.fromkeys(("exp", "sigmoid"), lambda x: 2.0**-22),
    "interpolate": lambda x, data_format, **_: 2.0**-22 * max(_spatial(x, data_format or "NCHW")),
}
# Of the largest value: how far Paddle's powers, which it takes in float32, may be off.
POWERS_APART = 1e-5
# Paddle takes no logit for more than this below the largest; only then may its result be far off.
CLIPPED_FROM = 64.0
_UNDERFLOW = -708.0  # whose exponential is 3e-308
_KEPT = ContextVar("kept", default=False)
# Whether a norm computes what its epsilon makes alone: one pass in place of the two formulas.
_DIFFERENCE = ContextVar("difference", default=False)
_NORMS = ("batch_norm", "instance_norm", "layer_norm")


@contextmanager
def _set(variable: ContextVar) -> Iterator[None]:
    token = variable.set(True)
    try:
        yield
    finally:
        variable.reset(token)


def as_kept():
    """Return a context in which a formula has the constants that Paddle keeps."""
    return _set(_KEPT)


def left_out(name: str, formula: Callable[[], object]):
    """Return the difference between the exact formula's result and that of the constants kept.

    name  the operator's, in FORMULAS; a norm's formula makes the difference in one pass
    """
    if name in _NORMS:
        with _set(_DIFFERENCE):
            return formula()
    exact = formula()
    with as_kept():
        return exact - formula()


def constant(number):
    """Return a number, or an array of them, as a formula has it: in float32 inside `as_kept`."""
    if not _KEPT.get():
        return number
    return np.float32(number).astype(np.float64) if np.ndim(number) else float(np.float32(number))


def _with_slope(value, slope: Callable):
    """Return a value; inside `as_kept` with the gradient of `slope`, which has Paddle's own."""
    if not _KEPT.get():
        return value
    kept = slope()
    return value.detach() + kept - kept.detach()


def _formula(name, *paths):
    """Enter an operator's formula, for each of Paddle's names (`Tensor.` for methods)."""

    def enter(function):
        FORMULAS[name] = function
        for path in paths:
            BY_PATH[path] = (name, function)
        return function

    return enter


def _in_float32(*numbers) -> bool:
    """True for numbers that float32 holds as they are: nothing is lost by keeping them there."""
    return all(float(np.float32(number)) == float(number) for number in numbers)


# ---- normalisation -------------------------------------------------------------------------------


def _normalised(x, axes, epsilon):
    """(x - mean) / sqrt(variance + epsilon), with the mean and the biased variance."""
    mean = x.mean(axis=axes, keepdim=True)
    moved = x - mean
    variance = (moved**2).mean(axis=axes, keepdim=True)
    return _scaled(moved, variance, epsilon), mean, variance


def _scaled(moved, variance, epsilon):
    """Return moved / sqrt(variance + epsilon), or what a kept epsilon leaves out of that."""
    if not _DIFFERENCE.get():
        return moved / paddle.sqrt(variance + constant(epsilon))
    with as_kept():
        kept = paddle.sqrt(variance + constant(epsilon))
    return moved * (1.0 / paddle.sqrt(variance + epsilon) - 1.0 / kept)


def _affine(x, weight, bias, shape):
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None or _DIFFERENCE.get() else x + bias.reshape(shape)


@_formula("layer_norm", "nn.functional.layer_norm")
def _layer_norm(x, normalized_shape, weight, bias, epsilon):
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    axes = list(range(x.ndim - len(shape), x.ndim))
    return _affine(_normalised(x, axes, epsilon)[0], weight, bias, shape)


@_formula("instance_norm", "nn.functional.instance_norm")
def _instance_norm(
    x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps, data_format
):
    if data_format[-1] == "C" and x.ndim > 2 or not use_input_stats:
        raise Untaken(Kind.UNTAKEN_INSTANCE_NORM())
    shape = [1, -1] + [1] * (x.ndim - 2)
    return _affine(_normalised(x, list(range(2, x.ndim)), eps)[0], weight, bias, shape)


@_formula("group_norm", "nn.functional.group_norm")
def _group_norm(x, num_groups, epsilon=1e-5, weight=None, bias=None, data_format="NCHW"):
    last = data_format[-1] == "C" and x.ndim > 2
    if last or weight is not None or not isinstance(epsilon, float):
        raise Untaken(Kind.UNTAKEN_GROUP_NORM())
    parts = x.reshape([x.shape[0], num_groups, -1])
    parts = parts - parts.mean(axis=2, keepdim=True)  # its epsilon is kept in float64
    normal = parts / paddle.sqrt((parts**2).mean(axis=2, keepdim=True) + epsilon)
    return _affine(normal.reshape(x.shape), None, bias, [1, -1] + [1] * (x.ndim - 2))


def batch_norm(x, mean, variance, weight, bias, training, epsilon, data_format):
    """The result of a batch norm, and the mean and the biased variance that it took."""
    last = data_format[-1] == "C" and x.ndim > 2
    axes = [i for i in range(x.ndim) if i != (x.ndim - 1 if last else min(1, x.ndim - 1))]
    shape = [-1 if i not in axes else 1 for i in range(x.ndim)]
    if training:
        normal, mean, variance = _normalised(x, axes, epsilon)
    else:
        normal = _scaled(x - mean.reshape(shape), variance.reshape(shape), epsilon)
    return _affine(normal, weight, bias, shape), mean.reshape([-1]), variance.reshape([-1])


FORMULAS["batch_norm"] = batch_norm  # by itself in exact.py: it moves running statistics


def _p_norm(x, p, axis, keepdim):
    p = constant(p)
    if p == 2:
        square = (x * x).sum(axis=axis, keepdim=keepdim)
        some = square > 0.0  # of a vector of zeros the gradient is 0, as torch has it
        root = paddle.sqrt(paddle.where(some, square, paddle.ones_like(square)))
        norm = paddle.where(some, root, paddle.zeros_like(root))
    else:
        square = (paddle.abs(x) ** _tensor(p)).sum(axis=axis, keepdim=keepdim)
        norm = paddle.pow(square, _tensor(constant(1.0 / p)))
    # Paddle adds 1e-12 to what its gradient divides by.
    return _with_slope(
        norm, lambda: square / (p * (paddle.pow(norm.detach(), _tensor(p - 1.0)) + 1e-12))
    )


@_formula("p_norm", "norm", "linalg.norm", "Tensor.norm")
def _norm(x, p, axis, keepdim):
    p = 2 if p is None or p == "fro" else p
    if not isinstance(p, int | float) or p != 2 and _in_float32(p):
        raise Untaken(Kind.UNTAKEN_NORM())
    return _p_norm(x, p, axis, keepdim)


@_formula("p_norm", "dist", "Tensor.dist")
def _dist(x, y, p=2):
    return _norm(x - y, p, None, False)


@_formula("p_norm", "nn.functional.normalize")
def _normalize(x, p, axis, epsilon):
    if p != 2 and _in_float32(p):
        raise Untaken(Kind.UNTAKEN_EXACT())
    return x / paddle.maximum(_p_norm(x, p, axis, True), _tensor(constant(epsilon)))


# ---- one element at a time -----------------------------------------------------------------------


def _tensor(number):
    return paddle.to_tensor(float(number), dtype="float64")


def _below(x):
    """x where it is at most 0, else 0: no exponential overflows, and no gradient is lost."""
    return paddle.where(x > 0.0, paddle.zeros_like(x), x)


@_formula("pow", "pow", "Tensor.pow", "Tensor.__pow__")
def _pow(x, y):
    if isinstance(y, paddle.Tensor) or _in_float32(y):
        raise Untaken(Kind.UNTAKEN_EXPONENT())
    return paddle.pow(x, _tensor(constant(y)))


@_formula("label_smooth", "nn.functional.label_smooth")
def _label_smooth(label, prior_dist, epsilon):
    epsilon = constant(epsilon)
    spread = constant(epsilon / label.shape[-1]) if prior_dist is None else epsilon * prior_dist
    return constant(1.0 - epsilon) * label + spread


@_formula("selu", "nn.functional.selu")
def _selu(x, scale, alpha):
    scale, alpha = constant(scale), constant(alpha)
    below, off = _below(x), constant(scale * alpha) - scale * alpha
    value = scale * paddle.where(x > 0.0, x, alpha * paddle.expm1(below))
    return _with_slope(value, lambda: value + off * below)


@_formula("elu", "nn.functional.elu")
def _elu(x, alpha):
    return paddle.where(x > 0.0, x, constant(alpha) * paddle.expm1(_below(x)))


@_formula("celu", "nn.functional.celu")
def _celu(x, alpha):
    alpha = constant(alpha)
    return paddle.where(x > 0.0, x, alpha * paddle.expm1(_below(x) / alpha))


@_formula("rrelu", "nn.functional.rrelu")
def _rrelu(x, lower, upper, training):
    if training:
        raise Untaken(Kind.UNTAKEN_SLOPES())
    slope = 0.5 * constant(constant(lower) + constant(upper))
    return paddle.where(x >= 0.0, x, x * slope)


@_formula("hardsigmoid", "nn.functional.hardsigmoid")
def _hardsigmoid(x, slope, offset):
    slope = 1.0 / 6.0 if slope == 0.1666667 and not _KEPT.get() else slope  # Paddle's word for it
    return _hardtanh(constant(slope) * x + constant(offset), 0.0, 1.0)


@_formula("hardtanh", "nn.functional.hardtanh")
def _hardtanh(x, min, max):
    min, max = constant(min), constant(max)
    x = paddle.where(x > min, x, paddle.full_like(x, min))
    return paddle.where(x < max, x, paddle.full_like(x, max))


@_formula("softshrink", "nn.functional.softshrink")
def _softshrink(x, threshold):
    threshold = constant(threshold)
    beyond = paddle.where(x > threshold, x - threshold, x + threshold)
    return paddle.where(paddle.abs(x) > threshold, beyond, paddle.zeros_like(x))


_formula("thresholded_relu", "nn.functional.thresholded_relu")(
    lambda x, threshold, value: paddle.where(
        x > constant(threshold), x, paddle.full_like(x, constant(value))
    )
)


@_formula("exp", "exp", "Tensor.exp")
def _complex_exp(x):
    size, angle = paddle.exp(paddle.real(x)), paddle.imag(x)
    return paddle.complex(size * paddle.cos(angle), size * paddle.sin(angle))


_formula("sigmoid", "sigmoid", "Tensor.sigmoid", "nn.functional.sigmoid")(
    lambda x: 0.5 + 0.5 * paddle.tanh(0.5 * x)
)
_formula("stanh", "stanh")(
    lambda x, scale_a, scale_b: constant(scale_b) * paddle.tanh(constant(scale_a) * x)
)
_formula("addmm", "addmm", "Tensor.addmm", "baddbmm", "Tensor.baddbmm")(
    lambda input, x, y, beta, alpha: constant(beta) * input + constant(alpha) * paddle.matmul(x, y)
)


# ---- softmax and losses --------------------------------------------------------------------------


def _exp(x):
    """Of numbers that are 0 or less: 0 where it is less than the smallest normal float64.

    Paddle's is 6e-309 of any number below, such as a masked score: the gradient there is then
    1e-316 in place of 0, and what is computed of such numbers takes a hundred times as long.
    """
    return paddle.where(x < _UNDERFLOW, paddle.zeros([], x.dtype), paddle.exp(x))


def _of_logits(function: Callable, x, axis):
    """Return a function of how far logits lie below the largest.

    Inside `as_kept` that is at most 64; Paddle's gradient is that of the function all the same.
    """
    below = x - x.detach().max(axis=axis, keepdim=True)
    value = function(below)
    if not _KEPT.get():
        return value
    return function(paddle.clip(below.detach(), min=-CLIPPED_FROM)) + value - value.detach()


@_formula("log_softmax", "nn.functional.log_softmax")
def _log_softmax(x, axis):
    return _of_logits(
        lambda below: below - paddle.log(_exp(below).sum(axis=axis, keepdim=True)), x, axis
    )


@_formula("softmax", "nn.functional.softmax")
def _softmax(x, axis):
    def shares(below):
        parts = _exp(below)
        return parts / parts.sum(axis=axis, keepdim=True)

    return _of_logits(shares, x, axis)


@_formula("cross_entropy", "nn.functional.cross_entropy")
def _cross_entropy(
    input, label, weight, ignore_index, reduction, soft_label, axis, use_softmax, label_smoothing
):
    classes = input.shape[axis]
    if not use_softmax or (weight is not None and (soft_label or label_smoothing)):
        raise Untaken(Kind.UNTAKEN_SOFT_LABELS())
    scores = _log_softmax(input, axis)
    shares, kept = label, None
    if not soft_label:
        labels = label.squeeze(axis) if label.ndim == input.ndim else label
        kept = (labels != ignore_index).unsqueeze(axis)  # (..., 1, ...)
        index = paddle.where(
            kept, labels.unsqueeze(axis).astype("int64"), paddle.zeros([], "int64")
        )
        every = paddle.arange(classes, dtype="int64")
        shares = (index.squeeze(axis).unsqueeze(-1) == every).astype("float64")  # (..., classes)
        shares = paddle.moveaxis(shares, -1, axis)
    if label_smoothing > 0.0:
        shares = _label_smooth(shares, None, label_smoothing)
        if _KEPT.get() and not soft_label:  # made of ones in float32
            shares = shares.astype("float32").astype("float64")
    mass = paddle.ones_like(scores.sum(axis=axis, keepdim=True))
    if kept is not None:
        mass = kept.astype("float64")
        if weight is not None:
            mass = mass * weight[index.flatten()].reshape(index.shape)
    losses = -(shares * scores).sum(axis=axis, keepdim=True)
    if label_smoothing > 0.0 and not soft_label:
        # In float32 they add up to 1 and a rounding, for which Paddle's gradient takes 1.
        more = (shares.sum(axis=axis, keepdim=True) - 1.0) * (input - scores).mean(
            axis=axis, keepdim=True
        )
        losses = _with_slope(losses, lambda: losses - more)
    losses = losses * mass
    if reduction == "none":
        return losses if soft_label or label.ndim == input.ndim else losses.squeeze(axis)
    return losses.sum() if reduction == "sum" else losses.sum() / mass.sum()


@_formula("smooth_l1_loss", "nn.functional.smooth_l1_loss")
def _smooth_l1_loss(input, label, reduction, delta, is_huber):
    if _in_float32(delta):
        raise Untaken(Kind.UNTAKEN_EXACT())
    off, delta = input - label, constant(delta)
    size = paddle.abs(off)
    losses = paddle.where(size < delta, 0.5 * off * off, delta * (size - 0.5 * delta))
    losses = losses if is_huber else losses / delta
    return losses if reduction == "none" else getattr(losses, reduction)()


# ---- what is a product with a matrix along each axis of an image ---------------------------------


def _along_axes(x, matrices, data_format):
    """x with a matrix (out, in) along each of its spatial axes."""
    first = 1 if data_format[-1] == "C" else 2
    for axis, matrix in enumerate(matrices, first):
        product = paddle.matmul(paddle.moveaxis(x, axis, -1), paddle.to_tensor(matrix.T.copy()))
        x = paddle.moveaxis(product, -1, axis)
    return x


def _sizes(value, count):
    values = [value] if isinstance(value, int) else [int(v) for v in value]
    return values * count if len(values) == 1 else values


def _spatial(x, data_format):
    return list(x.shape[1:-1] if data_format[-1] == "C" else x.shape[2:])


def _windows(size, kernel, stride, padding, ceil_mode, exclusive):
    """The matrix (out, size) of sums over windows, and how many values each counts.

    Padding may count as zeros.
    """
    left = size + 2 * padding - kernel
    count = (-(-left // stride) if ceil_mode else left // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    starts = np.arange(count) * stride - padding
    ends = np.minimum(starts + kernel, size if exclusive else size + padding)
    return _ones(starts, ends, size), ends - (np.maximum(starts, 0) if exclusive else starts)


def _ones(starts, ends, size):
    """The matrix (out, size) with ones between starts and ends."""
    at = np.arange(size)
    return ((at >= starts[:, None]) & (at < ends[:, None])).astype(np.float64)


def _means(x, windows, data_format):
    """The means over windows, whose gradient's 1 / n Paddle keeps.

    windows   those of each axis: a matrix of ones, and how many values each window counts
    """
    matrices, counts = zip(*windows, strict=True)
    sums = _along_axes(x, matrices, data_format)
    shares = 1.0 / functools.reduce(np.multiply.outer, counts)
    shares = shares[..., None] if data_format[-1] == "C" else shares
    means = sums * paddle.to_tensor(shares)
    return _with_slope(means, lambda: sums * paddle.to_tensor(constant(shares)))


def _enter_pooling(n):
    nc = ("NCL", "NCHW", "NCDHW")[n - 1]

    @_formula("avg_pool", f"nn.functional.avg_pool{n}d")
    def avg_pool(x, kernel_size, stride, padding, ceil_mode, exclusive, data_format=nc):
        if isinstance(padding, str):
            raise Untaken(Kind.UNTAKEN_PADDING_NAMED())
        padding = _sizes(padding, n)
        if len(padding) != n:
            raise Untaken(Kind.UNTAKEN_PADDING())
        kernel = _sizes(kernel_size, n)
        stride = kernel if stride is None else _sizes(stride, n)
        sizes = zip(_spatial(x, data_format), kernel, stride, padding, strict=True)
        return _means(x, [_windows(*s, ceil_mode, exclusive) for s in sizes], data_format)

    @_formula("avg_pool", f"nn.functional.adaptive_avg_pool{n}d")
    def adaptive(x, output_size, data_format=nc):
        wanted = [output_size] * n if isinstance(output_size, int) else list(output_size)
        windows = []
        for size, count in zip(_spatial(x, data_format), wanted, strict=True):
            count = size if count is None else int(count)
            starts = np.arange(count) * size // count
            ends = -(-(np.arange(count) + 1) * size // count)
            windows.append((_ones(starts, ends, size), ends - starts))
        return _means(x, windows, data_format)


for _n in (1, 2, 3):
    _enter_pooling(_n)


def lp_pool(x, kernel, stride, padding, ceil_mode, layout, power):
    """The power mean's sums over windows, whose roots they are."""
    if x.dtype != paddle.float64 or len(padding) != 2:
        raise Untaken(Kind.UNTAKEN_DTYPE_OR_PADDING())
    sizes = zip(_spatial(x, layout), kernel, stride, padding, strict=True)
    sums = [_windows(*size, ceil_mode, False)[0] for size in sizes]
    powers = _along_axes(paddle.pow(x, _tensor(power)), sums, layout)
    return paddle.pow(powers, _tensor(1.0 / power))


_CUBIC = -0.75  # of Keys 1981, as torch and Paddle have it


def _places(size, count, scale, align_corners, half_pixel):
    """Return where each of `count` new values lies among the `size` old ones."""
    new = np.arange(count, dtype=np.float64)
    if align_corners:
        return new * ((size - 1) / (count - 1) if count > 1 else 0.0)
    ratio = 1.0 / scale if scale else size / count
    return (new + 0.5) * ratio - 0.5 if half_pixel else new * ratio


def _weights(places, size, cubic):
    """The matrix (out, size) of linear or cubic interpolation at these places."""
    matrix = np.zeros((len(places), size))
    for row, place in zip(matrix, places, strict=True):
        place = place if cubic else min(max(place, 0.0), size - 1.0)
        below = int(np.floor(place))
        for i in range(below - 1, below + 3) if cubic else (below, below + 1):
            off = abs(place - i)
            if not cubic:
                weight = 1.0 - off
            elif off <= 1.0:
                weight = ((_CUBIC + 2.0) * off - (_CUBIC + 3.0)) * off * off + 1.0
            else:
                weight = ((_CUBIC * off - 5.0 * _CUBIC) * off + 8.0 * _CUBIC) * off - 4.0 * _CUBIC
            row[min(max(i, 0), size - 1)] += weight
    return matrix


@_formula("interpolate", "nn.functional.interpolate", "nn.functional.upsample")
def _interpolate(
    x, size, scale_factor, mode, align_corners, align_mode, data_format, recompute_scale_factor=None
):
    mode = mode.lower()
    if mode not in ("linear", "bilinear", "trilinear", "bicubic"):
        raise Untaken(Kind.UNTAKEN_INTERPOLATION())
    data_format = data_format or "NCHW"
    spatial = _spatial(x, data_format)
    given = scale_factor if size is None else size
    if isinstance(given, paddle.Tensor):
        given = given.numpy().reshape(-1).tolist()
    scales = [float(s) for s in (given if isinstance(given, list | tuple) else [given])]
    scales = scales * len(spatial) if len(scales) == 1 else scales
    counts = [int(n * s if size is None else s) for n, s in zip(spatial, scales, strict=True)]
    if size is not None or recompute_scale_factor:
        scales = [None] * len(spatial)
    cubic = mode == "bicubic"
    half_pixel = cubic or align_mode == 0
    matrices = [
        _weights(_places(n, count, scale, align_corners, half_pixel), n, cubic)
        for n, count, scale in zip(spatial, counts, scales, strict=True)
    ]
    return _along_axes(x, matrices, data_format)
