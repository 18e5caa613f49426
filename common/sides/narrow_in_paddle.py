"""What in Paddle can make a narrow float, by name; and those that it makes of integers, upcast.

    paddle.arange(0, 64, 2) / 64    position * 0.5    paddle.sqrt(length)    F.one_hot(labels, 5)

Whatever its default dtype, Paddle makes float32 there; torch makes floats of the default dtype.
"""

from functools import partial

import numpy as np
import paddle

from twincheck.common.sides import upcast
from twincheck.common.system.intercept import Handle, Intercept
from twincheck.common.system.reasons import Kind
from twincheck.common.transplant.exact import lp_pool

# Paddle's functions end in those of _C_ops, by whatever name a model has imported them.
ASKED = (
    "_C_ops.arange _C_ops.range_v2 _C_ops.assign_value _C_ops.assign_value_ _C_ops.cast "
    "_C_ops.cast_ _C_ops.cummax _C_ops.cummin _C_ops.empty _C_ops.empty_like _C_ops.eye "
    "_C_ops.full _C_ops.full_ _C_ops.full_batch_size_like _C_ops.full_like "
    "_C_ops.full_with_tensor _C_ops.gaussian _C_ops.gaussian_inplace _C_ops.linspace "
    "_C_ops.logspace _C_ops.mean _C_ops.nansum _C_ops.prod _C_ops.randint _C_ops.randperm "
    "_C_ops.sequence_mask _C_ops.sparse_cast _C_ops.sparse_sum _C_ops.sum "
    "_C_ops.truncated_gaussian_random _C_ops.uniform _C_ops.uniform_random_batch_size_like "
    "Tensor.astype Tensor.to Tensor._to nn.Layer.astype nn.Layer._to_impl set_default_dtype "
    "framework.set_default_dtype base.layer_helper_base.LayerHelperBase.create_parameter"
).split()
FROM_DATA = ("tensor.creation._to_tensor_non_static", "assign")
# A method's name -> what it casts to.
CALLED = {
    "float": paddle.float32,
    "float32": paddle.float32,
    "half": paddle.float16,
    "float16": paddle.float16,
    "bfloat16": paddle.bfloat16,
    "cfloat": paddle.complex64,
    "complex64": paddle.complex64,
}
# Operators with a Python float, and the division: asked at every sum of two tensors if they were
# replaced for good.
_ARITHMETIC = "add radd sub rsub mul rmul truediv rtruediv div rdiv pow rpow mod".split()
# That of a tensor of integers is narrow.
_OF_INTEGERS = (
    "acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh exp expm1 log log2 log10 log1p "
    "sqrt rsqrt reciprocal sigmoid logsigmoid erf erfinv digamma lgamma gammaln i0 i0e i1 i1e "
    "logit divide elementwise_pow pow tanh_shrink softplus silu swish gelu median nanmedian"
).split()
_OF_ANYTHING = ("one_hot",)


def spellings() -> dict[object, object]:
    """Every way to write a narrow dtype -> the wide one, written alike."""
    found: dict[object, object] = {}
    found |= dict.fromkeys((paddle.float32, paddle.float16, paddle.bfloat16), paddle.float64)
    found[paddle.complex64] = paddle.complex128
    names = {"float32": "float64", "float16": "float64", "complex64": "complex128"}
    for narrow, wide in names.items():
        found[narrow] = wide
        found[getattr(np, narrow)] = getattr(np, wide)
        found[np.dtype(narrow)] = np.dtype(wide)
    found |= dict.fromkeys(("bfloat16", "uint16"), "float64")  # bfloat16 is stored as uint16
    kinds = paddle.base.core.VarDesc.VarType  # of older versions
    found |= dict.fromkeys((kinds.FP32, kinds.FP16, kinds.BF16), kinds.FP64)
    return found


def own_ways(spelling: upcast.Spelling) -> tuple[dict[str, Handle], list]:
    """What handles the floats that are made of integers: always, and put there while upcasting."""
    always = {f"_C_ops.{name}": spelling.of_integers for name in _OF_INTEGERS}
    always |= {f"_C_ops.{name}": spelling.result for name in _OF_ANYTHING}
    swapped = {f"Tensor.__{name}__": spelling.of_integers for name in _ARITHMETIC}
    swapped |= {f"_C_ops.{name}": partial(_in_graph, handle) for name, handle in _WHOLE.items()}
    return always, [Intercept(paddle, {**swapped, "_C_ops.lp_pool2d": _lp_pool})]


# ---- numbers of a static graph, which keeps those of these operators in float32 ------------------


def _in_graph(whole, own, arguments, options):
    """The operator with its numbers as float64 tensors, where it becomes a part of a graph."""
    x = arguments[0]
    if isinstance(x, paddle.pir.Value) and x.dtype == paddle.float64:
        return whole(own, *arguments, **options)
    return own(*arguments, **options)


def _number(value):
    return paddle.to_tensor(value, "float64") if type(value) is float else value


def _scale(own, x, scale=1.0, bias=0.0, bias_after_scale=True, **rest):
    if bias and not bias_after_scale:
        x, bias = x + _number(bias), 0.0
    x = x if scale == 1.0 else x * _number(float(scale))
    return x + _number(float(bias)) if bias else x


def _clip(own, x, low, high, **rest):
    return own(x, _number(low), _number(high), **rest)


def _full_like(own, x, value, *rest, **more):
    return own(x, 0.0, *rest, **more) + _number(value)


_WHOLE = {"scale": _scale, "clip": _clip, "full_like": _full_like}


def _lp_pool(own, arguments, options):
    """By powers in float64: Paddle's own result, of 1d too, holds float32 values."""
    upcast.note(Kind.LP_POOL_NARROW())
    x, kernel, stride, padding, ceil_mode, *more = arguments
    kept = own(*arguments, **options)
    return lp_pool(kept, x, kernel, stride, padding, ceil_mode, more[1], more[-1])
