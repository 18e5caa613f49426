"""Functions of paddle and methods of its tensors, computed by torch (table.py says how)."""

import operator as python

from common.transplant.table import Untaken, axes, operator, same_name, sizes, torch

# ---- products ------------------------------------------------------------------------------------


@operator("matmul", "matmul", "Tensor.matmul", "Tensor.__matmul__", "linalg.matmul")
def _matmul(x, y, transpose_x=False, transpose_y=False):
    x = x.mT if transpose_x and x.ndim > 1 else x
    return torch.matmul(x, y.mT if transpose_y and y.ndim > 1 else y)


@operator("matmul", "bmm", "Tensor.bmm", "mm", "Tensor.mm")
def _bmm(x, y):
    return torch.matmul(x, y)


@operator("matmul", "dot", "Tensor.dot")
def _dot(x, y):
    return (x * y).sum(-1)


@operator("einsum", "einsum")
def _einsum(equation, operands):
    return torch.einsum(equation, *operands)


# ---- sums over an axis ---------------------------------------------------------------------------


@operator("sum", "sum", "Tensor.sum")
def _sum(x, axis=None, dtype=None, keepdim=False):
    return torch.sum(x, axes(axis), keepdim, dtype=dtype)


@operator("mean", "mean", "Tensor.mean")
def _mean(x, axis=None, keepdim=False):
    return torch.mean(x, axes(axis), keepdim)


@operator("var", "var", "Tensor.var")
def _var(x, axis=None, unbiased=True, keepdim=False):
    return torch.var(x, axes(axis), unbiased=unbiased, keepdim=keepdim)


@operator("var", "std", "Tensor.std")
def _std(x, axis=None, unbiased=True, keepdim=False):
    return torch.std(x, axes(axis), unbiased=unbiased, keepdim=keepdim)


@operator("norm", "norm", "Tensor.norm", "linalg.norm")
def _norm(x, p=None, axis=None, keepdim=False):
    if p not in (None, "fro") and not isinstance(p, int | float):
        raise Untaken(f"p = {p}")
    return torch.linalg.vector_norm(x, p if isinstance(p, int | float) else 2, axes(axis), keepdim)


@operator("cumsum", "cumsum", "Tensor.cumsum")
def _cumsum(x, axis=None, dtype=None):
    return torch.cumsum(x.reshape(-1) if axis is None else x, axis or 0, dtype=dtype)


@operator("max", "max", "Tensor.max", "amax", "Tensor.amax")
def _max(x, axis=None, keepdim=False):
    return torch.amax(x, _all_axes(x, axis), keepdim)


@operator("max", "min", "Tensor.min", "amin", "Tensor.amin")
def _min(x, axis=None, keepdim=False):
    return torch.amin(x, _all_axes(x, axis), keepdim)


@operator("logsumexp", "logsumexp", "Tensor.logsumexp")
def _logsumexp(x, axis=None, keepdim=False):
    axis = tuple(range(x.ndim)) if axis is None else axes(axis)
    return torch.logsumexp(x, axis, keepdim)


def _all_axes(x, axis):
    return tuple(range(x.ndim)) if axis is None or axis == [] else axes(axis)


# ---- one element at a time -----------------------------------------------------------------------


for _name in ("exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "erf",
              "tanh", "sigmoid", "square", "abs", "reciprocal"):  # fmt: skip
    operator(_name, _name, f"Tensor.{_name}")(same_name(torch, _name))
for _name in ("tanh", "sigmoid"):
    operator(_name, f"nn.functional.{_name}")(same_name(torch, _name))


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


@operator("maximum", "maximum", "Tensor.maximum")
def _maximum(x, y):
    return torch.maximum(x, y)


@operator("minimum", "minimum", "Tensor.minimum")
def _minimum(x, y):
    return torch.minimum(x, y)


# ---- moving values, whose gradients are sums -----------------------------------------------------


@operator("gather", "gather", "Tensor.gather", "index_select", "Tensor.index_select")
def _index_select(x, index, axis=0):
    return torch.index_select(x, axis or 0, index.reshape(-1))


@operator("gather", "take_along_axis", "Tensor.take_along_axis")
def _take_along_axis(arr, indices, axis, broadcast=True):
    if arr.ndim != indices.ndim:
        raise Untaken("other numbers of axes")
    return torch.take_along_dim(arr, indices, axis) if broadcast else arr.gather(axis, indices)


@operator("expand", "expand", "Tensor.expand", "broadcast_to", "Tensor.broadcast_to")
def _expand(x, shape):
    return x.expand(*(int(n) for n in shape))


@operator("tile", "tile", "Tensor.tile")
def _tile(x, repeat_times):
    return x.tile(sizes(repeat_times))


@operator("clip", "clip", "Tensor.clip")
def _clip(x, min=None, max=None):
    return torch.clip(x, min, max)


@operator("where", "where", "Tensor.where")
def _where(condition, x=None, y=None):
    if x is None or y is None:
        raise Untaken("only a condition")
    return torch.where(condition, x, y)


# ---- choices -------------------------------------------------------------------------------------


@operator("sort", "sort", "Tensor.sort")
def _sort(x, axis=-1, descending=False, stable=False):
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


@operator("argsort", "argsort", "Tensor.argsort")
def _argsort(x, axis=-1, descending=False, stable=False):
    return torch.argsort(x, dim=axis, descending=descending, stable=stable)


@operator("topk", "topk", "Tensor.topk")
def _topk(x, k, axis=-1, largest=True, sorted=True):
    found = torch.topk(x, int(k), -1 if axis is None else axis, largest, sorted)
    return found.values, found.indices


@operator("argmax", "argmax", "Tensor.argmax")
def _argmax(x, axis=None, keepdim=False, dtype="int64"):
    if dtype not in ("int64", torch.int64):
        raise Untaken(f"dtype {dtype}")
    return torch.argmax(x, axis, keepdim)


@operator("argmax", "argmin", "Tensor.argmin")
def _argmin(x, axis=None, keepdim=False, dtype="int64"):
    if dtype not in ("int64", torch.int64):
        raise Untaken(f"dtype {dtype}")
    return torch.argmin(x, axis, keepdim)
