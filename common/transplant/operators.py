"""Operators that a Paddle twin can have computed by torch: Paddle's arguments, torch's kernels.

`TABLE` maps an operator's name (what --transplant takes) to the functions of Paddle that it stands
for, each with the same computation in torch.  Those take Paddle's arguments, as tensors of torch.
Where torch has no such form they raise Untaken, and Paddle's own runs.  patch.py, beside this file,
puts them in place.  Shapes are those of Paddle's own functions.

torch is not imported until load(): the check's process asks for the names alone.
"""

import importlib
import operator
from collections.abc import Callable

from common.system.errors import UserError

ALL = "all"
SMALLEST = "smallest"
torch = F = None  # load() puts them here
TABLE: dict[str, dict[str, Callable]] = {}  # operator -> {Paddle's name: torch's way}


class Untaken(Exception):
    """This call has no counterpart in torch; Paddle's own runs."""


def load():
    """Import torch for the table's functions."""
    global torch, F
    torch = importlib.import_module("torch")
    F = importlib.import_module("torch.nn.functional")


def chosen(text: str) -> list[str]:
    """The operators that --transplant names; raises UserError for one that is not known."""
    if text in (ALL, SMALLEST):
        return list(TABLE)
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = ", ".join(sorted(set(names) - set(TABLE)))
    if unknown or not names:
        raise UserError(
            f"--transplant {text}: {unknown or 'nothing'} is no operator that can be transplanted; "
            f"these can: {', '.join(sorted(TABLE))}; or {ALL}, or {SMALLEST}"
        )
    return list(dict.fromkeys(names))


def _operator(name, *paths):
    """Enter a function under an operator, for each of Paddle's names (`Tensor.` for methods)."""

    def enter(function):
        TABLE.setdefault(name, {}).update(dict.fromkeys(paths, function))
        return function

    return enter


def _axes(axis):
    """Paddle's axis (None, integer, list) as torch's dim."""
    return tuple(int(a) for a in axis) if isinstance(axis, list | tuple) else axis


def _sizes(values):
    """Paddle's integer, or list of integers, as torch wants a size."""
    return tuple(int(v) for v in values) if isinstance(values, list | tuple) else int(values)


def channels_first(data_format):
    """Raise Untaken for Paddle's layouts with the channels last."""
    if data_format not in ("NCL", "NC", "NCHW", "NCDHW"):
        raise Untaken(f"data_format {data_format}")


# ---- products ------------------------------------------------------------------------------------


@_operator("matmul", "matmul", "Tensor.matmul", "Tensor.__matmul__", "linalg.matmul")
def _matmul(x, y, transpose_x=False, transpose_y=False):
    x = x.mT if transpose_x and x.ndim > 1 else x
    return torch.matmul(x, y.mT if transpose_y and y.ndim > 1 else y)


@_operator("matmul", "bmm", "Tensor.bmm", "mm", "Tensor.mm")
def _bmm(x, y):
    return torch.matmul(x, y)


@_operator("matmul", "dot", "Tensor.dot")
def _dot(x, y):
    return (x * y).sum(-1)


@_operator("attention", "nn.functional.scaled_dot_product_attention")
def _attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=True, scale=None
):
    if dropout_p and training:
        raise Untaken("dropout inside")
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # heads before tokens
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal=is_causal, scale=scale
    )
    return mixed.transpose(1, 2)


@_operator("einsum", "einsum")
def _einsum(equation, *operands):
    return torch.einsum(equation, *operands)


@_operator("linear", "nn.functional.linear")
def _linear(x, weight, bias=None):
    # A copy in torch's own layout, so that it is the same call of BLAS as in the torch twin.
    return F.linear(x, weight.t().contiguous(), bias)


def _enter_convolution(n):
    """conv over n axes."""

    @_operator("conv", f"nn.functional.conv{n}d")
    def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCHW"):
        return _conv(x, weight, bias, stride, padding, dilation, groups, data_format)


for _n in (1, 2, 3):
    _enter_convolution(_n)


@_operator("conv", "nn.functional.conv._conv_nd")  # what nn.Conv2D and Conv3D call
def _conv_nd(
    x,
    weight,
    bias=None,
    stride=1,
    padding=0,
    padding_algorithm=None,
    dilation=1,
    groups=1,
    data_format="NCHW",
    channel_dim=1,
    op_type="conv2d",
    use_cudnn=True,
    use_mkldnn=False,
    name=None,
):
    if padding_algorithm not in (None, "EXPLICIT"):
        raise Untaken(f"padding {padding_algorithm}")
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format)


def _conv(x, weight, bias, stride, padding, dilation, groups, data_format):
    channels_first(data_format)
    padding = padding.lower() if isinstance(padding, str) else _sizes(padding)
    if not isinstance(padding, str | int) and len(padding) not in (1, x.ndim - 2):
        raise Untaken("a padding for each end")
    function = getattr(F, f"conv{x.ndim - 2}d")
    return function(x, weight, bias, _sizes(stride), padding, _sizes(dilation), groups)


# ---- normalisation -------------------------------------------------------------------------------


@_operator("layer_norm", "nn.functional.layer_norm")
def _layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-5):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    weight = weight if weight is None else weight.reshape(shape)
    return F.layer_norm(x, shape, weight, bias if bias is None else bias.reshape(shape), epsilon)


@_operator("batch_norm", "nn.functional.batch_norm")
def _batch_norm(
    x,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.9,
    epsilon=1e-5,
    data_format="NCHW",
    use_global_stats=None,
):
    channels_first(data_format)
    if training and not use_global_stats:
        raise Untaken("train mode, where Paddle keeps its own running statistics")
    return F.batch_norm(x, running_mean, running_var, weight, bias, False, 0.0, epsilon)


@_operator("group_norm", "nn.functional.group_norm")
def _group_norm(x, num_groups, epsilon=1e-5, weight=None, bias=None, data_format="NCHW"):
    channels_first(data_format)
    return F.group_norm(x, num_groups, weight, bias, epsilon)


@_operator("instance_norm", "nn.functional.instance_norm")
def _instance_norm(
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.9,
    eps=1e-5,
    data_format="NCHW",
):
    channels_first(data_format)
    return F.instance_norm(x, None, None, weight, bias, True, 0.0, eps)


@_operator("normalize", "nn.functional.normalize")
def _normalize(x, p=2, axis=1, epsilon=1e-12):
    return F.normalize(x, p, axis, epsilon)


# ---- softmax, its relatives, and losses ----------------------------------------------------------


@_operator("softmax", "nn.functional.softmax")
def _softmax(x, axis=-1, dtype=None):
    return F.softmax(x, axis, dtype=dtype)


@_operator("log_softmax", "nn.functional.log_softmax")
def _log_softmax(x, axis=-1, dtype=None):
    return F.log_softmax(x, axis, dtype=dtype)


@_operator("logsumexp", "logsumexp", "Tensor.logsumexp")
def _logsumexp(x, axis=None, keepdim=False):
    axis = tuple(range(x.ndim)) if axis is None else _axes(axis)
    return torch.logsumexp(x, axis, keepdim)


@_operator("cross_entropy", "nn.functional.cross_entropy")
def _cross_entropy(
    input,
    label,
    weight=None,
    ignore_index=-100,
    reduction="mean",
    soft_label=False,
    axis=-1,
    use_softmax=True,
    label_smoothing=0.0,
):
    if soft_label or not use_softmax or axis not in (-1, input.ndim - 1):
        raise Untaken("soft labels, no softmax or another axis")
    labels = label.squeeze(-1) if label.ndim == input.ndim else label
    rows = input.reshape(-1, input.shape[-1])
    found = F.cross_entropy(
        rows,
        labels.reshape(-1),
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    return found.reshape(label.shape) if reduction == "none" else found


@_operator("cross_entropy", "nn.functional.nll_loss")
def _nll_loss(input, label, weight=None, ignore_index=-100, reduction="mean"):
    return F.nll_loss(input, label, weight, ignore_index=ignore_index, reduction=reduction)


@_operator("mse_loss", "nn.functional.mse_loss")
def _mse_loss(input, label, reduction="mean"):
    return F.mse_loss(input, label, reduction=reduction)


# ---- sums over an axis ---------------------------------------------------------------------------


@_operator("sum", "sum", "Tensor.sum")
def _sum(x, axis=None, dtype=None, keepdim=False):
    return torch.sum(x, _axes(axis), keepdim, dtype=dtype)


@_operator("mean", "mean", "Tensor.mean")
def _mean(x, axis=None, keepdim=False):
    return torch.mean(x, _axes(axis), keepdim)


@_operator("var", "var", "Tensor.var")
def _var(x, axis=None, unbiased=True, keepdim=False):
    return torch.var(x, _axes(axis), unbiased=unbiased, keepdim=keepdim)


@_operator("var", "std", "Tensor.std")
def _std(x, axis=None, unbiased=True, keepdim=False):
    return torch.std(x, _axes(axis), unbiased=unbiased, keepdim=keepdim)


@_operator("norm", "norm", "Tensor.norm", "linalg.norm")
def _norm(x, p=None, axis=None, keepdim=False):
    if p not in (None, "fro") and not isinstance(p, int | float):
        raise Untaken(f"p = {p}")
    return torch.linalg.vector_norm(x, p if isinstance(p, int | float) else 2, _axes(axis), keepdim)


@_operator("cumsum", "cumsum", "Tensor.cumsum")
def _cumsum(x, axis=None, dtype=None):
    return torch.cumsum(x.reshape(-1) if axis is None else x, axis or 0, dtype=dtype)


@_operator("max", "max", "Tensor.max", "amax", "Tensor.amax")
def _max(x, axis=None, keepdim=False):
    return torch.amax(x, _all_axes(x, axis), keepdim)


@_operator("max", "min", "Tensor.min", "amin", "Tensor.amin")
def _min(x, axis=None, keepdim=False):
    return torch.amin(x, _all_axes(x, axis), keepdim)


def _all_axes(x, axis):
    return tuple(range(x.ndim)) if axis is None or axis == [] else _axes(axis)


# ---- one element at a time -----------------------------------------------------------------------


@_operator("gelu", "nn.functional.gelu")
def _gelu(x, approximate=False):
    return F.gelu(x, approximate="tanh" if approximate in (True, "tanh") else "none")


@_operator("softplus", "nn.functional.softplus")
def _softplus(x, beta=1, threshold=20):
    return F.softplus(x, beta, threshold)


@_operator("leaky_relu", "nn.functional.leaky_relu")
def _leaky_relu(x, negative_slope=0.01):
    return F.leaky_relu(x, negative_slope)


@_operator("elu", "nn.functional.elu")
def _elu(x, alpha=1.0):
    return F.elu(x, alpha)


def _unary(module, name):
    """torch's function of this name in one of its modules, of one tensor."""
    return lambda x: getattr(globals()[module], name)(x)


def _enter_unary():
    """Functions of one tensor with the same name on both sides."""
    for name in ("exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "erf",
                 "tanh", "sigmoid", "square", "abs", "reciprocal"):  # fmt: skip
        paths = [name, f"Tensor.{name}"]
        paths += [f"nn.functional.{name}"] if name in ("tanh", "sigmoid") else []
        _operator(name, *paths)(_unary("torch", name))
    for name in ("relu", "silu", "selu", "mish", "relu6", "softsign", "tanhshrink"):
        _operator(name, f"nn.functional.{name}")(_unary("F", name))
    _operator("silu", "nn.functional.swish")(_unary("F", "silu"))
    _operator("log_sigmoid", "nn.functional.log_sigmoid")(_unary("F", "logsigmoid"))


def _binary(own):
    return lambda x, y: own(x, y)


def _reflected(own):
    """torch divides a number by a tensor in its own way: what Python calls is what counts."""
    return lambda x, y: own(y, x)


def _enter_arithmetic():
    """Exact in the forward pass; but where an operand is spread, its gradient is a sum."""
    for name, own, symbol in (
        ("add", operator.add, "add"),
        ("subtract", operator.sub, "sub"),
        ("multiply", operator.mul, "mul"),
        ("divide", operator.truediv, "truediv"),
        ("pow", operator.pow, "pow"),
    ):
        _operator(name, name, f"Tensor.{name}", f"Tensor.__{symbol}__")(_binary(own))
        _operator(name, f"Tensor.__r{symbol}__")(_reflected(own))

    @_operator("maximum", "maximum", "Tensor.maximum")
    def maximum(x, y):
        return torch.maximum(x, y)

    @_operator("minimum", "minimum", "Tensor.minimum")
    def minimum(x, y):
        return torch.minimum(x, y)


_enter_unary()
_enter_arithmetic()


# ---- moving values, whose gradients are sums -----------------------------------------------------


@_operator("embedding", "nn.functional.embedding")
def _embedding(x, weight, padding_idx=None, sparse=False):
    if sparse or (padding_idx is not None and padding_idx >= 0):
        raise Untaken("a padding row, which is zeros in Paddle alone")
    return F.embedding(x, weight)


@_operator("gather", "gather", "Tensor.gather", "index_select", "Tensor.index_select")
def _index_select(x, index, axis=0):
    return torch.index_select(x, axis or 0, index.reshape(-1))


@_operator("gather", "take_along_axis", "Tensor.take_along_axis")
def _take_along_axis(arr, indices, axis, broadcast=True):
    if arr.ndim != indices.ndim:
        raise Untaken("other numbers of axes")
    return torch.take_along_dim(arr, indices, axis) if broadcast else arr.gather(axis, indices)


@_operator("expand", "expand", "Tensor.expand", "broadcast_to", "Tensor.broadcast_to")
def _expand(x, shape):
    return x.expand(*(int(n) for n in shape))


@_operator("tile", "tile", "Tensor.tile")
def _tile(x, repeat_times):
    return x.tile(_sizes(repeat_times))


@_operator("clip", "clip", "Tensor.clip")
def _clip(x, min=None, max=None):
    return torch.clip(x, min, max)


@_operator("where", "where", "Tensor.where")
def _where(condition, x=None, y=None):
    if x is None or y is None:
        raise Untaken("only a condition")
    return torch.where(condition, x, y)


# ---- choices -------------------------------------------------------------------------------------


@_operator("sort", "sort", "Tensor.sort")
def _sort(x, axis=-1, descending=False, stable=False):
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


@_operator("argsort", "argsort", "Tensor.argsort")
def _argsort(x, axis=-1, descending=False, stable=False):
    return torch.argsort(x, dim=axis, descending=descending, stable=stable)


@_operator("topk", "topk", "Tensor.topk")
def _topk(x, k, axis=-1, largest=True, sorted=True):
    found = torch.topk(x, int(k), -1 if axis is None else axis, largest, sorted)
    return found.values, found.indices


@_operator("argmax", "argmax", "Tensor.argmax")
def _argmax(x, axis=None, keepdim=False, dtype="int64"):
    if dtype not in ("int64", torch.int64):
        raise Untaken(f"dtype {dtype}")
    return torch.argmax(x, axis, keepdim)


@_operator("argmax", "argmin", "Tensor.argmin")
def _argmin(x, axis=None, keepdim=False, dtype="int64"):
    if dtype not in ("int64", torch.int64):
        raise Untaken(f"dtype {dtype}")
    return torch.argmin(x, axis, keepdim)


# ---- pooling -------------------------------------------------------------------------------------


def _enter_pooling(n):
    """max_pool, avg_pool and the adaptive avg_pool over n axes."""

    @_operator("max_pool", f"nn.functional.max_pool{n}d")
    def max_pool(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False):
        if return_mask or isinstance(padding, str):
            raise Untaken("a mask or a padding by name")
        size, stride = _sizes(kernel_size), None if stride is None else _sizes(stride)
        own = getattr(F, f"max_pool{n}d")
        return own(x, size, stride, _sizes(padding), ceil_mode=ceil_mode)

    @_operator("avg_pool", f"nn.functional.avg_pool{n}d")
    def avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True):
        if n == 1 or isinstance(padding, str):
            raise Untaken("other arguments in another order, or a padding by name")
        size, stride = _sizes(kernel_size), None if stride is None else _sizes(stride)
        own = getattr(F, f"avg_pool{n}d")
        return own(x, size, stride, _sizes(padding), ceil_mode, not exclusive)

    @_operator("avg_pool", f"nn.functional.adaptive_avg_pool{n}d")
    def adaptive(x, output_size):
        return getattr(F, f"adaptive_avg_pool{n}d")(x, _sizes(output_size))


for _n in (1, 2, 3):
    _enter_pooling(_n)
