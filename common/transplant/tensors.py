"""Functions of paddle and methods of its tensors, computed by torch (table.py says how)."""

import operator as python

from common.transplant.table import Untaken, axes, operator, same_name, sizes, torch

# ---- products ------------------------------------------------------------------------------------


@operator("matmul", "matmul", "Tensor.matmul", "Tensor.__matmul__", "linalg.matmul")
def _matmul(x, y, transpose_x=False, transpose_y=False):
    x = x.mT if transpose_x and x.ndim > 1 else x
    return torch.matmul(x, y.mT if transpose_y and y.ndim > 1 else y)


operator("matmul", "bmm", "Tensor.bmm", "mm", "Tensor.mm")(lambda x, y: torch.matmul(x, y))
operator("matmul", "dot", "Tensor.dot")(lambda x, y: (x * y).sum(-1))
operator("einsum", "einsum")(lambda equation, operands: torch.einsum(equation, *operands))


# ---- sums over an axis ---------------------------------------------------------------------------


operator("sum", "sum", "Tensor.sum")(
    lambda x, axis=None, dtype=None, keepdim=False: torch.sum(x, axes(axis), keepdim, dtype=dtype)
)
operator("mean", "mean", "Tensor.mean")(
    lambda x, axis=None, keepdim=False: torch.mean(x, axes(axis), keepdim)
)
operator("var", "var", "Tensor.var")(
    lambda x, axis=None, unbiased=True, keepdim=False: torch.var(
        x, axes(axis), unbiased=unbiased, keepdim=keepdim
    )
)
operator("var", "std", "Tensor.std")(
    lambda x, axis=None, unbiased=True, keepdim=False: torch.std(
        x, axes(axis), unbiased=unbiased, keepdim=keepdim
    )
)


@operator("norm", "norm", "Tensor.norm", "linalg.norm")
def _norm(x, p=None, axis=None, keepdim=False):
    if p not in (None, "fro") and not isinstance(p, int | float):
        raise Untaken(f"p = {p}")
    return torch.linalg.vector_norm(x, p if isinstance(p, int | float) else 2, axes(axis), keepdim)


operator("cumsum", "cumsum", "Tensor.cumsum")(
    lambda x, axis=None, dtype=None: torch.cumsum(
        x.reshape(-1) if axis is None else x, axis or 0, dtype=dtype
    )
)
operator("max", "max", "Tensor.max", "amax", "Tensor.amax")(
    lambda x, axis=None, keepdim=False: torch.amax(x, _all_axes(x, axis), keepdim)
)
operator("max", "min", "Tensor.min", "amin", "Tensor.amin")(
    lambda x, axis=None, keepdim=False: torch.amin(x, _all_axes(x, axis), keepdim)
)


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


operator("maximum", "maximum", "Tensor.maximum")(lambda x, y: torch.maximum(x, y))
operator("minimum", "minimum", "Tensor.minimum")(lambda x, y: torch.minimum(x, y))


# ---- moving values, whose gradients are sums -----------------------------------------------------


operator("gather", "gather", "Tensor.gather", "index_select", "Tensor.index_select")(
    lambda x, index, axis=0: torch.index_select(x, axis or 0, index.reshape(-1))
)


@operator("gather", "take_along_axis", "Tensor.take_along_axis")
def _take_along_axis(arr, indices, axis, broadcast=True):
    if arr.ndim != indices.ndim:
        raise Untaken("other numbers of axes")
    return torch.take_along_dim(arr, indices, axis) if broadcast else arr.gather(axis, indices)


operator("expand", "expand", "Tensor.expand", "broadcast_to", "Tensor.broadcast_to")(
    lambda x, shape: x.expand(*(int(n) for n in shape))
)
operator("tile", "tile", "Tensor.tile")(lambda x, repeat_times: x.tile(sizes(repeat_times)))
operator("clip", "clip", "Tensor.clip")(lambda x, min=None, max=None: torch.clip(x, min, max))


@operator("where", "where", "Tensor.where")
def _where(condition, x=None, y=None):
    if x is None or y is None:
        raise Untaken("only a condition")
    return torch.where(condition, x, y)


# ---- choices -------------------------------------------------------------------------------------


operator("sort", "sort", "Tensor.sort")(
    lambda x, axis=-1, descending=False, stable=False: (
        torch.sort(x, dim=axis, descending=descending, stable=stable).values
    )
)
operator("argsort", "argsort", "Tensor.argsort")(
    lambda x, axis=-1, descending=False, stable=False: torch.argsort(
        x, dim=axis, descending=descending, stable=stable
    )
)


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
