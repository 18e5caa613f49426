"""Half precision: is the candidate's error as small as the reference's own?

Both sides' float64 runs have shown before whether they compute the same function; here the two
half precision runs are judged.  Whole runs cannot tell: in a deep model all roundings together hide
a norm that is computed in bfloat16, or a softmax.  So every module is fed the reference's values in
half precision, in float64 too, and its error is what half precision makes of it by itself:

    e_t = t_half - t_64    e_p = p_half - p_64    both fed what torch had in half precision

Measured over the whole tensor (root mean square, maximum) and along its vectors: the part of each
vector's error that goes the vector's own way.  Roundings of single values hardly have one; a mean,
a sum or a scale that was rounded moves its whole vector by one factor.

The sides may cast in another order.  How much more of the candidate's error passes depends on
whether it is seen computing on a narrower type than the reference does there (its sidecar's
`computed`): `tolerances.py` has the two factors.  NumPy only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.logs.key import Key
from common.logs.pickle_machine import printable
from common.system.half import EPSILONS, HALF, SMALLEST
from common.verdict.logs_of_a_run import Logs
from common.verdict.measures import rms
from common.verdict.origins import parent_code
from common.verdict.row import AGREEING, Row
from common.verdict.tolerances import tolerance

BY_ITSELF = "by itself"  # begins the name of how a row was measured that is judged here
_RUNS = ("ref32", "step_ref64", "step_cand", "step_cand64")
_PASSING = (*AGREEING, "INSIDE", "CONSTANT")
_TYPES = ("float64", "float32", "float16", "bfloat16")  # from wide to narrow

# One operator under the names that the frameworks have for it.
_ALIKE = {
    "multiply": "mul", "rmul": "mul", "elementwise_mul": "mul", "scale": "mul",
    "divide": "div", "truediv": "div", "rtruediv": "div", "rdiv": "div", "true_divide": "div",
    "radd": "add", "subtract": "sub", "rsub": "sub",
    "elementwise_pow": "pow", "rpow": "pow", "square": "pow",
    "bmm": "matmul", "mm": "matmul", "rmatmul": "matmul",
    "log_softmax": "softmax", "reduce_sum": "sum", "reduce_mean": "mean",
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


# What models compute in float32 where all else is in half precision.
_LIFTED = frozenset(
    "softmax exp log logsumexp sum mean var std pow rsqrt sqrt norm layer_norm rms_norm batch_norm "
    "group_norm cumsum prod cos sin sigmoid cross_entropy nll_loss".split()
)


@dataclass(frozen=True)
class _Errors:
    """How large the error of one tensor is, in three ways."""

    rms: float
    max: float
    along: float  # of the part that goes each vector's own way, as a part of the vector


class Half:
    """Judges a run's rows in half precision, once their functions have been judged."""

    def __init__(self, logs: Logs):
        self._logs = logs
        self.dtype = logs.sidecars["ref32"].dtype
        self._widths = [
            {module: _widths(said) for module, said in logs.sidecars[name].computed.items()}
            for name in ("ref32", "cand32")
        ]
        modules = logs.sidecars["ref32"].modules
        self._modules = {case: _within(modules, case) for case in (*logs.cases, "")}

    @property
    def on(self) -> bool:
        """True for a run in half precision, of which there are the single steps."""
        return self.dtype in HALF and all(name in self._logs for name in _RUNS)

    def judge(self, rows: Sequence[Row], keys: Sequence[Key]) -> list[str]:
        """Make PRECISION the rows of which the candidate's error is larger; what is to be said."""
        better, worse = [], []
        for row, key in zip(rows, keys, strict=True):
            if row.verdict not in _PASSING:
                continue
            ratio = self._judge(row, key)
            if row.verdict == "PRECISION":
                worse.append(row)
            elif ratio is not None and ratio * tolerance("half_caused") < 1.0:
                better.append(row)
        notes = [
            f"{self.dtype}: each module's error on torch's values is measured against its own "
            f"float64 run; {len(worse)} of {len(rows)} values have a larger one than torch's"
        ]
        if better:
            notes.append(
                f"Paddle's {self.dtype} is more exact than torch's in {len(better)} values, such "
                f"as {printable(better[0].key)}"
            )
        return notes

    def _judge(self, row: Row, key: Key) -> float | None:
        """Judge one row; the candidate's error over the reference's, None where there is none."""
        arrays = [self._logs.get(name, key) for name in _RUNS]
        if any(a is None or a.dtype.kind != "f" for a in arrays) or not arrays[0].size:
            return None
        if len({a.shape for a in arrays}) > 1:
            return None
        ref, exact, cand, cand_exact = (a.astype(np.float64) for a in arrays)
        with np.errstate(all="ignore"):
            kept = np.isfinite(ref) & np.isfinite(exact) & np.isfinite(cand_exact)
            if not np.isfinite(cand[kept]).all():
                row.verdict, row.measure, row.origin = "PRECISION", BY_ITSELF, True
                row.inside = False
                row.note = f"Paddle's {self.dtype} has infinities or NaN where torch's has none"
                return np.inf
            own = np.where(kept, ref - exact, 0.0)
            other = np.where(kept, cand - cand_exact, 0.0)
            exact = np.where(kept, exact, 0.0)
        narrower = self.narrower(key)
        measured, allowed = _errors(other, exact), self._allowed(row, own, exact, bool(narrower))
        reference = _errors(own, exact)
        over = {
            name: getattr(measured, name) / getattr(allowed, name)
            for name in ("rms", "max", "along")
            if getattr(measured, name) > 0.0
        }
        name = max(over, key=over.get, default="")
        if name and over[name] > 1.0:
            row.verdict, row.origin, row.inside = "PRECISION", True, False
            row.measure = f"{BY_ITSELF}, {'along its vectors' if name == 'along' else name}"
            row.noise_ref, row.noise_cand = getattr(reference, name), getattr(measured, name)
            row.allowed, row.scale = getattr(allowed, name), rms(exact)
            row.note = "; ".join(narrower)
        return measured.rms / reference.rms if reference.rms else None

    def _allowed(self, row: Row, own: np.ndarray, exact: np.ndarray, caused: bool) -> _Errors:
        """How large the candidate's error may be, from the reference's.

        A value inside may be rounded once where the reference does not round it.
        """
        reference, epsilon = _errors(own, exact), EPSILONS[self.dtype]
        # Of few values, or few that count, the measured size is chance.
        values = 1.0 + tolerance("half_spread") / np.sqrt(_effective(own))
        along = _along(own, exact)
        vectors = 1.0 + tolerance("half_spread") / np.sqrt(_effective(along))
        factor = tolerance("half_caused" if caused else "half")
        least = SMALLEST[self.dtype]
        rounds = reference.rms > tolerance("half_exact") * epsilon * rms(exact)
        once = 0.0 if rounds or not row.inside else epsilon / 2
        length = exact.shape[-1] if exact.ndim else 1
        # What single roundings make of it, each by itself; of one vector it is small by chance.
        size = rms(exact)
        chance = reference.rms / size / np.sqrt(length) if size else 0.0
        chance *= 1.0 + 2.0 * tolerance("half_spread") / np.sqrt(along.size)
        return _Errors(
            max(factor * values * reference.rms, once * size, least),
            max(2.0 * factor * values * reference.max, 2.0 * once * np.abs(exact).max(), least),
            max(factor * vectors * reference.along, factor * chance, 2 * once / np.sqrt(length)),
        )

    def narrower(self, key: Key) -> list[str]:
        """What the candidate computes on narrower types than the reference, where a row is made.

        A line for each operator of the module, or of the code around it, that made the row.
        """
        modules = self._modules[key.case]
        name = parent_code(key, modules)
        if name is None:
            name = key.module(modules)
        if name is None:
            return []
        ref, cand = (side.get(f"{key.case}{name}", {}) for side in self._widths)
        found = [
            f"{operator} is on {cand[operator]} in Paddle, on {ref[operator]} in torch"
            for operator in cand
            if operator in ref and _is_narrower(cand[operator], ref[operator])
        ]
        # A softmax on one side may be an exponential and a sum on the other.
        lifted = {o: kind for o, kind in ref.items() if o in _LIFTED and kind not in HALF}
        on_half = [o for o, kind in cand.items() if o in _LIFTED and kind in HALF]
        if lifted and on_half and not any(o in _LIFTED and k not in HALF for o, k in cand.items()):
            operator, kind = next(iter(lifted.items()))
            found = found or [
                f"{operator} is on {kind} in torch; Paddle has {' and '.join(on_half)} on "
                f"{cand[on_half[0]]} there"
            ]
        return found


def _within(modules: Mapping[str, int], case: str) -> frozenset[str]:
    return frozenset(name[len(case) :] for name in modules if name.startswith(case))


def _widths(computed: Mapping[str, int]) -> dict[str, str]:
    """Operator -> the narrowest type of float that it was given in a module, where it computes.

    One narrow operand is enough: it was rounded to be that.
    """
    found: dict[str, str] = {}
    for said in computed:
        operator, *types = said.split(" ")
        operator = _ALIKE.get(operator, operator)
        types = [kind for kind in types if kind in _TYPES]
        if operator in _MOVING or not types:
            continue
        narrowest = max(types, key=_TYPES.index)
        if operator not in found or _is_narrower(narrowest, found[operator]):
            found[operator] = narrowest
    return found


def _is_narrower(one: str, other: str) -> bool:
    return one != other and _TYPES.index(one) > _TYPES.index(other)


def _along(error: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Of each vector along the last axis: what part of itself its error adds to it."""
    if not exact.ndim:
        return np.zeros(1)
    width = exact.shape[-1]
    if width < 2:
        return np.zeros(1)
    error, exact = error.reshape(-1, width), exact.reshape(-1, width)
    squares = np.square(exact).sum(axis=1)
    kept = squares > 0.0
    return (error * exact).sum(axis=1)[kept] / squares[kept] if kept.any() else np.zeros(1)


def _errors(error: np.ndarray, exact: np.ndarray) -> _Errors:
    return _Errors(rms(error), float(np.abs(error).max()), rms(_along(error, exact)))


def _effective(values: np.ndarray) -> float:
    """How many values carry the mean square: all of them where they are alike, 1 of one outlier."""
    squares = np.square(values)
    total, fourth = squares.sum(), np.square(squares).sum()
    return float(total * total / fourth) if fourth > 0.0 else 1.0
