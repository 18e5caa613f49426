"""The operators that --transplant can name, each computed by torch.

`TABLE` maps an operator's name to the functions of Paddle that it stands for, each with the same
computation in torch.  A function here takes Paddle's arguments by name, as tensors of torch; what
it has no default for has Paddle's own.  Where torch has no such form it raises Untaken, and
Paddle's own function runs.  patch.py puts these in place.

torch is imported when the first of them runs: the check's process asks for the names alone.
"""

import importlib
import operator as python
from collections.abc import Callable

from twincheck.common.system.errors import UserError
from twincheck.common.system.words import did_you_mean
from twincheck.common.transplant.table import SMALLEST, Untaken, channels_first
from twincheck.extras.bits import Kind

ALL = "all"
TABLE: dict[str, dict[str, Callable]] = {}  # operator -> {Paddle's name: torch's computation}


class _OnFirstUse:
    """A module that is imported when one of its functions is first asked for."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str):
        return getattr(importlib.import_module(self._name), attribute)


torch = _OnFirstUse("torch")
F = _OnFirstUse("torch.nn.functional")


def operator(name, *paths):
    """Enter a function under an operator, for each of Paddle's names (`Tensor.` for methods)."""

    def enter(function):
        TABLE.setdefault(name, {}).update(dict.fromkeys(paths, function))
        return function

    return enter


def chosen(text: str) -> list[str]:
    """The operators that --transplant names; raises UserError for one that is not known."""
    if text in (ALL, SMALLEST):
        return list(TABLE)
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = sorted(set(names) - set(TABLE))
    if wrong or not names:
        meant = did_you_mean(wrong[0], [*TABLE, ALL, SMALLEST]) if wrong else ""
        known = {"operators": sorted(TABLE), "all": ALL, "smallest": SMALLEST, "meant": meant}
        unknown = wrong or [Kind.NOTHING()]
        raise UserError(Kind.OPERATORS_UNKNOWN(given=text, unknown=unknown, **known))
    return list(dict.fromkeys(names))


def listed() -> str:
    """What --transplant takes, in words."""
    return Kind.OPERATORS_TAKEN(all=ALL, smallest=SMALLEST, operators=sorted(TABLE))


def _layer(name, *others):
    """Enter a function of paddle.nn.functional under its own name, and under others."""
    return operator(name, *(f"nn.functional.{each}" for each in (name, *others)))


def _math(name, *names):
    """Enter a function of paddle that is a method of tensors too, under its own or other names."""
    return operator(name, *(path for n in names or (name,) for path in (n, f"Tensor.{n}")))


def axes(axis):
    """Paddle's axis (None, integer, list) as torch's dim."""
    return tuple(int(a) for a in axis) if isinstance(axis, list | tuple) else axis


def sizes(values):
    """Paddle's integer, or list of integers, as torch wants a size."""
    return tuple(int(v) for v in values) if isinstance(values, list | tuple) else int(values)


def same_name(module, name):
    """torch's function of one tensor that has this name in one of its modules."""
    return lambda x: getattr(module, name)(x)


# ---- layers: attention, linear, convolutions, embedding ------------------------------------------


@operator("attention", "nn.functional.scaled_dot_product_attention")
def _attention(query, key, value, attn_mask, dropout_p, is_causal, training=True, scale=None):
    if dropout_p and training:
        raise Untaken(Kind.UNTAKEN_DROPOUT())
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # heads before tokens
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal=is_causal, scale=scale
    )
    return mixed.transpose(1, 2)


# A copy of the weight in torch's own layout, so that it is the same call of BLAS as in its worker.
_layer("linear")(lambda x, weight, bias: F.linear(x, weight.t().contiguous(), bias))


@operator("conv", *(f"nn.functional.conv{n}d" for n in (1, 2, 3)))
def _conv(x, weight, bias, stride, padding, dilation, groups):
    padding = padding.lower() if isinstance(padding, str) else sizes(padding)
    if not isinstance(padding, str | int) and len(padding) not in (1, x.ndim - 2):
        raise Untaken(Kind.UNTAKEN_PADDING_OF_ENDS())
    function = getattr(F, f"conv{x.ndim - 2}d")
    return function(x, weight, bias, sizes(stride), padding, sizes(dilation), groups)


@operator("conv", "nn.functional.conv._conv_nd")  # what nn.Conv2D and Conv3D call
def _conv_nd(
    x, weight, bias, stride, padding, padding_algorithm, dilation, groups, data_format, **of_kernels
):
    channels_first(data_format)
    if padding_algorithm not in (None, "EXPLICIT"):
        raise Untaken(Kind.UNTAKEN_PADDING(padding=padding_algorithm))
    return _conv(x, weight, bias, stride, padding, dilation, groups)


@_layer("embedding")
def _embedding(x, weight, padding_idx):
    if padding_idx is not None and padding_idx >= 0:
        raise Untaken(Kind.UNTAKEN_PADDING_ROW())
    return F.embedding(x, weight)


# ---- normalisation -------------------------------------------------------------------------------


@_layer("layer_norm")
def _layer_norm(x, normalized_shape, weight, bias, epsilon):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    weight, bias = (v if v is None else v.reshape(shape) for v in (weight, bias))
    return F.layer_norm(x, shape, weight, bias, epsilon)


@_layer("batch_norm")
def _batch_norm(
    x, running_mean, running_var, weight, bias, training, momentum, epsilon, use_global_stats
):
    if training and not use_global_stats:
        raise Untaken(Kind.UNTAKEN_TRAIN_MODE())
    return F.batch_norm(x, running_mean, running_var, weight, bias, False, 0.0, epsilon)


_layer("group_norm")(
    lambda x, num_groups, epsilon, weight, bias: F.group_norm(x, num_groups, weight, bias, epsilon)
)


@_layer("instance_norm")
def _instance_norm(x, weight, bias, eps, data_format, **of_statistics):
    channels_first(data_format)
    return F.instance_norm(x, None, None, weight, bias, True, 0.0, eps)


_layer("normalize")(lambda x, p, axis, epsilon: F.normalize(x, p, axis, epsilon))


# ---- softmax and losses --------------------------------------------------------------------------


_layer("softmax")(lambda x, axis, dtype: F.softmax(x, axis, dtype=dtype))
_layer("log_softmax")(lambda x, axis, dtype: F.log_softmax(x, axis, dtype=dtype))


@_layer("cross_entropy")
def _cross_entropy(input, label, weight, ignore_index, reduction, axis, label_smoothing):
    if axis not in (-1, input.ndim - 1):
        raise Untaken(Kind.UNTAKEN_AXIS())
    labels = label.squeeze(-1) if label.ndim == input.ndim else label
    options = {"reduction": reduction, "label_smoothing": label_smoothing}
    rows = input.reshape(-1, input.shape[-1])
    found = F.cross_entropy(rows, labels.reshape(-1), weight, None, ignore_index, **options)
    return found.reshape(label.shape) if reduction == "none" else found


operator("cross_entropy", "nn.functional.nll_loss")(
    lambda input, label, weight, ignore_index, reduction: F.nll_loss(
        input, label, weight, ignore_index=ignore_index, reduction=reduction
    )
)
_layer("mse_loss")(lambda input, label, reduction: F.mse_loss(input, label, reduction=reduction))


# ---- activations ---------------------------------------------------------------------------------


@_layer("gelu")
def _gelu(x, approximate):
    return F.gelu(x, approximate="tanh" if approximate in (True, "tanh") else "none")


_layer("softplus")(lambda x, beta, threshold: F.softplus(x, beta, threshold))
_layer("leaky_relu")(lambda x, negative_slope: F.leaky_relu(x, negative_slope))
_layer("elu")(lambda x, alpha: F.elu(x, alpha))
for _name in ("relu", "silu", "selu", "mish", "relu6", "softsign", "tanhshrink"):
    _layer(_name)(same_name(F, _name))
operator("silu", "nn.functional.swish")(same_name(F, "silu"))
_layer("log_sigmoid")(same_name(F, "logsigmoid"))


# ---- pooling -------------------------------------------------------------------------------------


def _enter_pooling(n):
    """max_pool, avg_pool and the adaptive avg_pool over n axes."""

    @operator("max_pool", f"nn.functional.max_pool{n}d")
    def max_pool(x, kernel_size, stride, padding, ceil_mode):
        if isinstance(padding, str):
            raise Untaken(Kind.UNTAKEN_PADDING_BY_NAME())
        size, stride = sizes(kernel_size), None if stride is None else sizes(stride)
        own = getattr(F, f"max_pool{n}d")
        return own(x, size, stride, sizes(padding), ceil_mode=ceil_mode)

    @operator("avg_pool", f"nn.functional.avg_pool{n}d")
    def avg_pool(x, kernel_size, stride, padding, ceil_mode, exclusive):
        if n == 1 or isinstance(padding, str):
            raise Untaken(Kind.UNTAKEN_POOLING())
        size, stride = sizes(kernel_size), None if stride is None else sizes(stride)
        own = getattr(F, f"avg_pool{n}d")
        return own(x, size, stride, sizes(padding), ceil_mode, not exclusive)

    operator("avg_pool", f"nn.functional.adaptive_avg_pool{n}d")(
        lambda x, output_size: getattr(F, f"adaptive_avg_pool{n}d")(x, sizes(output_size))
    )


for _n in (1, 2, 3):
    _enter_pooling(_n)


# ---- products ------------------------------------------------------------------------------------


@operator("matmul", "matmul", "Tensor.matmul", "Tensor.__matmul__", "linalg.matmul")
def _matmul(x, y, transpose_x=False, transpose_y=False):
    x = x.mT if transpose_x and x.ndim > 1 else x
    return torch.matmul(x, y.mT if transpose_y and y.ndim > 1 else y)


_math("matmul", "bmm", "mm")(lambda x, y: torch.matmul(x, y))
_math("matmul", "dot")(lambda x, y: (x * y).sum(-1))
operator("einsum", "einsum")(lambda equation, operands: torch.einsum(equation, *operands))


# ---- sums over an axis ---------------------------------------------------------------------------


_math("sum")(lambda x, axis, dtype, keepdim: torch.sum(x, axes(axis), keepdim, dtype=dtype))
_math("mean")(lambda x, axis, keepdim: torch.mean(x, axes(axis), keepdim))


@_math("var")
def _var(x, axis, keepdim, unbiased=True):
    return torch.var(x, axes(axis), unbiased=unbiased, keepdim=keepdim)


@_math("var", "std")
def _std(x, axis, keepdim, unbiased=True):
    return torch.std(x, axes(axis), unbiased=unbiased, keepdim=keepdim)


@operator("norm", "norm", "Tensor.norm", "linalg.norm")
def _norm(x, p, axis, keepdim):
    if p not in (None, "fro") and not isinstance(p, int | float):
        raise Untaken(Kind.UNTAKEN_NORM(p=str(p)))
    return torch.linalg.vector_norm(x, p if isinstance(p, int | float) else 2, axes(axis), keepdim)


@_math("cumsum")
def _cumsum(x, axis, dtype):
    return torch.cumsum(x.reshape(-1) if axis is None else x, axis or 0, dtype=dtype)


def _all_axes(x, axis):
    return tuple(range(x.ndim)) if axis is None or axis == [] else axes(axis)


_math("max", "max", "amax")(lambda x, axis, keepdim: torch.amax(x, _all_axes(x, axis), keepdim))
_math("max", "min", "amin")(lambda x, axis, keepdim: torch.amin(x, _all_axes(x, axis), keepdim))
_math("logsumexp")(lambda x, axis, keepdim: torch.logsumexp(x, _all_axes(x, axis), keepdim))


# ---- one element at a time -----------------------------------------------------------------------


for _name in ("exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "erf",
              "tanh", "sigmoid", "square", "abs", "reciprocal"):  # fmt: skip
    _math(_name)(same_name(torch, _name))
for _name in ("tanh", "sigmoid"):
    _layer(_name)(same_name(torch, _name))


def _binary(own):
    return lambda x, y: own(x, y)


def _reflected(own):
    """For `number / tensor` and the like, which torch computes otherwise than `tensor / tensor`."""
    return lambda x, y: own(y, x)


# Exact in the forward pass; but where an operand is broadcast, its gradient is a sum.
for _name, _own, _symbol in (
    ("add", python.add, "add"),
    ("subtract", python.sub, "sub"),
    ("multiply", python.mul, "mul"),
    ("divide", python.truediv, "truediv"),
    ("pow", python.pow, "pow"),
):
    operator(_name, _name, f"Tensor.{_name}", f"Tensor.__{_symbol}__")(_binary(_own))
    operator(_name, f"Tensor.__r{_symbol}__")(_reflected(_own))


_math("maximum")(lambda x, y: torch.maximum(x, y))
_math("minimum")(lambda x, y: torch.minimum(x, y))


# ---- moving values, whose gradients are sums -----------------------------------------------------


_math("gather", "gather", "index_select")(
    lambda x, index, axis: torch.index_select(x, axis or 0, index.reshape(-1))
)


@_math("gather", "take_along_axis")
def _take_along_axis(arr, indices, axis, broadcast=True):
    if arr.ndim != indices.ndim:
        raise Untaken(Kind.UNTAKEN_AXES())
    return torch.take_along_dim(arr, indices, axis) if broadcast else arr.gather(axis, indices)


_math("expand", "expand", "broadcast_to")(lambda x, shape: x.expand(*(int(n) for n in shape)))
_math("tile")(lambda x, repeat_times: x.tile(sizes(repeat_times)))
_math("clip")(lambda x, min, max: torch.clip(x, min, max))


@_math("where")
def _where(condition, x, y):
    if x is None or y is None:
        raise Untaken(Kind.UNTAKEN_CONDITION())
    return torch.where(condition, x, y)


# ---- choices -------------------------------------------------------------------------------------


@_math("sort")
def _sort(x, axis, descending, stable=False):
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


@_math("argsort")
def _argsort(x, axis, descending, stable=False):
    return torch.argsort(x, dim=axis, descending=descending, stable=stable)


@_math("topk")
def _topk(x, k, axis, largest, sorted):
    found = torch.topk(x, int(k), -1 if axis is None else axis, largest, sorted)
    return found.values, found.indices


def _extreme(name):
    def extreme(x, axis, keepdim, dtype):
        if dtype not in ("int64", torch.int64):
            raise Untaken(Kind.UNTAKEN_DTYPE(dtype=str(dtype)))
        return getattr(torch, name)(x, axis, keepdim)

    return extreme


for _name in ("argmax", "argmin"):
    _math("argmax", _name)(_extreme(_name))
