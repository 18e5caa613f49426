"""Floats that Paddle makes of integers, lifted: it makes float32 of them, whatever its default is.

    paddle.arange(0, 64, 2) / 64    position * 0.5    paddle.sqrt(length)    F.one_hot(labels, 5)

torch makes floats of the default dtype there.
"""

import numpy as np
import paddle

from common.sides import lift

# Operators with a Python float, and the division: asked at every sum of two tensors if they were
# replaced for good.
_ARITHMETIC = "add radd sub rsub mul rmul truediv rtruediv div rdiv pow rpow mod".split()
# That of a tensor of integers is narrow.
_OF_INTEGERS = (
    "acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh exp expm1 log log2 log10 log1p "
    "sqrt rsqrt reciprocal sigmoid logsigmoid erf erfinv digamma lgamma gammaln i0 i0e i1 i1e logit "
    "divide elementwise_pow pow tanh_shrink softplus silu swish gelu median nanmedian"
).split()
_OF_ANYTHING = ("one_hot",)


def spellings() -> dict[object, object]:
    """Every way to write a narrow dtype beside Paddle's own -> the wide one, written alike."""
    found: dict[object, object] = {}
    for narrow, wide in (("float32", "float64"), ("float16", "float64"), ("complex64", "complex128")):
        found[narrow] = wide
        found[getattr(np, narrow)] = getattr(np, wide)
        found[np.dtype(narrow)] = np.dtype(wide)
    found |= dict.fromkeys(("bfloat16", "uint16"), "float64")  # that is how Paddle stores bfloat16
    kinds = paddle.base.core.VarDesc.VarType  # of older versions
    found |= dict.fromkeys((kinds.FP32, kinds.FP16, kinds.BF16), kinds.FP64)
    return found


def patch_integers(spelling: lift.Spelling) -> None:
    """Put the lift behind all of them."""
    operators = paddle._C_ops
    lift.install([(operators, name, spelling.of_integers) for name in _OF_INTEGERS])
    lift.install([(operators, name, spelling.result) for name in _OF_ANYTHING])
    methods = [(paddle.Tensor, f"__{name}__", spelling.of_integers) for name in _ARITHMETIC]
    lift.install_while_lifting(methods)
