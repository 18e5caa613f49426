"""Which operators one side computes on narrower types than the other, as the sidecars say."""

from collections.abc import Mapping

from twincheck.common.system.half import HALF
from twincheck.common.system.reasons import Kind

_TYPES = ("float64", "float32", "float16", "bfloat16")  # from wide to narrow

# One operator under the names that the frameworks have for it.
_ALIKE = {
    "multiply": "mul", "rmul": "mul", "elementwise_mul": "mul", "scale": "mul",
    "divide": "div", "truediv": "div", "rtruediv": "div", "rdiv": "div", "true_divide": "div",
    "radd": "add", "subtract": "sub", "rsub": "sub",
    "elementwise_pow": "pow", "rpow": "pow", "square": "pow",
    "bmm": "matmul", "mm": "matmul", "rmatmul": "matmul",
    "reduce_sum": "sum", "reduce_mean": "mean", "swish": "silu",
    "cross_entropy_with_softmax": "cross_entropy", "softmax_with_cross_entropy": "cross_entropy",
}  # fmt: skip
# These move values, compare or choose them, and round nothing.
_MOVING = frozenset(
    "reshape view transpose permute expand expand_as repeat tile unsqueeze squeeze flatten "
    "getitem setitem slice split chunk concat cat stack gather index_select take_along_axis "
    "embedding contiguous to type cast float double half bfloat16 masked_fill masked_fill where "
    "full full_like zeros zeros_like ones ones_like empty arange dim size shape numel is_complex "
    "is_floating_point item tolist cpu numpy detach clone copy eq ne lt le gt ge isnan isfinite "
    "any all max min maximum minimum amax amin argmax argmin topk sort argsort neg abs relu relu_ "
    "triu tril roll flip unbind pad dropout requires_grad register_hook backward assign fill "
    "new_zeros new_ones type_as strided_slice set_value share_data t mT".split()
)


# Casts round nothing further; what they are given tells what was rounded before.
_CASTS = frozenset("to type type_as cast astype float double half bfloat16".split())
CONSTANT = "constant"  # begins what is said of a tensor that a module keeps, and holds its size
_Calls = dict[str, dict[str, int]]  # operator -> type of float -> calls

_OF_NORM = (("mean", "var", "sum", "rsqrt", "sqrt"), ("pow", "mul", "div", "sub"))
# An operator -> one of what it is written out in, and what else may be.  Kernels compute in
# float32 inside, whatever they are given.
_PARTS = {
    "softmax": (("exp",), ("sum", "div", "sub")),
    "log_softmax": (("exp", "log", "logsumexp", "softmax"), ("sum", "sub")),
    "cross_entropy": (("exp", "log", "logsumexp", "softmax", "log_softmax"), ("sum", "mean")),
    "logsumexp": (("exp", "log"), ("sum",)),
    "layer_norm": _OF_NORM, "rms_norm": _OF_NORM, "group_norm": _OF_NORM,
    "batch_norm": _OF_NORM, "instance_norm": _OF_NORM, "normalize": _OF_NORM,
    "gelu": (("erf", "tanh", "pow"), ("mul", "add", "div")),
    "silu": (("sigmoid", "exp"), ("mul",)),
    "sigmoid": (("exp",), ("add", "div")),
    "hardswish": (("relu6", "hardsigmoid", "clip"), ("mul", "div", "add")),
}  # fmt: skip


def narrower_operators(
    ref: Mapping[str, int], cand: Mapping[str, int], widest: bool = False, casts: bool = False
) -> list[str]:
    """A reason for each operator that the candidate computes on narrower types.

    ref, cand  what each side's module computed: "operator type …" -> calls
    widest     whether of several types the widest counts, as for a gradient
    casts      whether what is cast counts too: it was rounded before
    """
    ours, theirs = _calls(ref, widest, casts), _calls(cand, widest, casts)
    found = _written_out(ours, theirs)
    for operator in theirs:  # less often on a wide type, and more often on a narrow one
        less, more = _more(ours, theirs, operator), _more(theirs, ours, operator)
        if less and more and _rounds(more[-1], less[0]):
            size = operator.removeprefix(f"{CONSTANT}[").removesuffix("]")
            types = {"paddle": more[-1], "torch": less[0]}
            found.append(
                Kind.OPERATOR_NARROWER(operator=operator, **types)
                if size == operator
                else Kind.CONSTANT_NARROWER(size=size, **types)
            )
    return found


def _rounds(kind: str, other: str) -> bool:
    """Return whether `kind` rounds values of `other`: neither half has all of the other."""
    return _TYPES.index(kind) > _TYPES.index(other) or (kind != other and {kind, other} <= {*HALF})


def _calls(computed: Mapping[str, int], widest: bool, casts: bool) -> _Calls:
    """Operator -> type of float -> calls of it in a module, of operators that compute.

    Of several types the narrowest counts: an operand may have been rounded to be that.  Not for a
    gradient: the operator was computed on the widest, and in the forward pass shows what it rounds.
    """
    found: _Calls = {}
    for said, count in computed.items():
        operator, *types = said.split(" ")
        operator = "cast" if casts and operator in _CASTS else _ALIKE.get(operator, operator)
        types = [kind for kind in types if kind in _TYPES]
        if not types or operator in _MOVING and not (casts and operator == "cast"):
            continue
        calls = found.setdefault(operator, {})
        counts = (min if widest else max)(types, key=_TYPES.index)
        calls[counts] = calls.get(counts, 0) + count
    return found


def _more(one: _Calls, other: _Calls, operator: str) -> list[str]:
    """The types on which one side calls an operator more often than the other, wide ones first."""
    calls, fewer = one.get(operator, {}), other.get(operator, {})
    return [kind for kind in _TYPES if calls.get(kind, 0) > fewer.get(kind, 0)]


def _written_out(ref: _Calls, cand: _Calls) -> list[str]:
    """Operators of the reference that the candidate has in parts, each of which rounds."""
    found = []
    for operator, (needed, further) in _PARTS.items():
        less = _more(ref, cand, operator)
        parts = [part for part in (*needed, *further) if _more(cand, ref, part)]
        on_half = [kind for part in parts for kind in _more(cand, ref, part) if kind in HALF]
        if less and on_half and (set(needed) & set(parts)):
            said = {"operator": operator, "parts": parts, "paddle": on_half[0]}
            found.append(
                Kind.OPERATOR_WRITTEN_OUT_OF_ONE(**said)
                if less[0] in HALF
                else Kind.OPERATOR_WRITTEN_OUT(torch=less[0], **said)
            )
    return found
