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
`computed`): `tolerances.json` has the two factors.  NumPy only.
"""

from collections.abc import Sequence

import numpy as np

from twincheck.common.logs.computed import narrower_operators
from twincheck.common.logs.key import Key, parent_code
from twincheck.common.logs.of_a_run import Logs
from twincheck.common.system.half import EPSILONS, HALF, SMALLEST
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable
from twincheck.common.verdict.measures import rms
from twincheck.common.verdict.row import AGREEING, Row
from twincheck.common.verdict.tolerances import tolerance

_RUNS = ("ref32", "step_ref64", "step_cand", "step_cand64")
_PASSING = (*AGREEING, "INSIDE", "CONSTANT")


# An error is measured over the whole tensor, root mean square and maximum, and along its vectors.
_MEASURES = ("rms", "max", Kind.ALONG_VECTORS())


class Half:
    """Judges a run's rows in half precision, once their functions have been judged."""

    def __init__(self, logs: Logs):
        self._logs = logs
        self.dtype = logs.sidecars["ref32"].dtype
        self._computed = [logs.sidecars[name].computed for name in ("ref32", "cand32")]
        self._narrower: dict[str, list[str]] = {}  # key of a row -> why it is less exact
        modules = logs.sidecars["ref32"].modules
        self._modules = {
            case: frozenset(name[len(case) :] for name in modules if name.startswith(case))
            for case in (*logs.cases, "")
        }

    @property
    def on(self) -> bool:
        """True for a run in half precision, of which there are the single steps."""
        return self.dtype in HALF and all(name in self._logs for name in _RUNS)

    def judge(self, rows: list[Row], keys: Sequence[Key]) -> list[str]:
        """Make PRECISION the rows of which the candidate's error is larger; returns notes."""
        better, worse = [], []
        for i, (row, key) in enumerate(zip(rows, keys, strict=True)):
            if row.verdict not in _PASSING:
                continue
            rows[i], ratio = self._judge(row, key)
            if rows[i].verdict == "PRECISION":
                worse.append(rows[i])
                continue
            if ratio is not None and ratio * tolerance("half_caused") < 1.0:
                better.append(row)
        notes = [Kind.HALF_MEASURED(dtype=self.dtype, worse=len(worse), count=len(rows))]
        notes += self._harmless(worse)
        said = [self._logs.sidecars[name] for name in ("ref32", "cand32")]
        if any(sidecar.kernels for sidecar in said):
            torch, paddle = (sidecar.kernels or "?" for sidecar in said)
            notes.append(Kind.HALF_COMPUTED_BY(dtype=self.dtype, torch=torch, paddle=paddle))
        if said[0].autocast:
            notes.append(Kind.HALF_AUTOCAST())
        if better:
            such = {"count": len(better), "key": printable(better[0].key)}
            notes.append(Kind.HALF_MORE_EXACT(dtype=self.dtype, **such))
        return notes

    def _harmless(self, worse: Sequence[Row]) -> list[str]:
        """What is computed on other types in any module, where no error has shown it.

        At a short length numbers may not: positions up to 256 are exact in bfloat16.
        """
        known = {line for row in worse for line in self._narrower.get(row.key, ())}
        places: dict[str, dict[str, None]] = {}
        for case, modules in self._modules.items():
            for name in sorted({"", *modules}):
                said = (side.get(f"{case}{name}", {}) for side in self._computed)
                for line in narrower_operators(*said, casts=True):
                    places.setdefault(line, {})[printable(name) or Kind.MODEL_ITSELF()] = None
        notes = []
        for line, found in places.items():
            at = {"place": next(iter(found)), "narrower": line}
            if line not in known and len(found) > 1:
                notes.append(Kind.HALF_HARMLESS_AT_MORE(count=len(found) - 1, **at))
            elif line not in known:
                notes.append(Kind.HALF_HARMLESS(**at))
        return notes

    def _judge(self, row: Row, key: Key) -> tuple[Row, float | None]:
        """Return the row, judged, and the candidate's error over the reference's.

        None where there is nothing to measure.
        """
        narrower = self.narrower(key)
        found = self._measured(key, bool(narrower), row.inside)
        if found is None:
            return row, None
        reference, candidate, allowed, scale, finite = found
        if finite and scale < tolerance("noise_only") * reference[0]:
            return row, None  # zero in exact arithmetic: rounding is all that it holds
        ratio, shares = candidate[0] / reference[0] if reference[0] else None, candidate / allowed
        if finite and shares.max() <= 1.0:
            return row, ratio
        facts = {"origin": True, "inside": False, "by_itself": True}
        if not finite:
            facts["measure"] = Kind.BY_ITSELF()
            return row.decided(
                "PRECISION", reasons=(Kind.HALF_INFINITE(dtype=self.dtype),), **facts
            ), ratio
        self._narrower[row.key], decides = narrower, int(shares.argmax())
        facts |= {
            "measure": Kind.BY_ITSELF_MEASURE(measure=_MEASURES[decides]),
            "noise_ref": float(reference[decides]),
            "noise_cand": float(candidate[decides]),
            "allowed": float(allowed[decides]),
            "scale": scale,
        }
        return row.decided("PRECISION", reasons=tuple(narrower), **facts), ratio

    def _measured(self, key: Key, caused: bool, inside: bool) -> tuple | None:
        """Return both sides' errors, what is allowed, the scale and if the candidate is finite.

        Each is fed what torch had in half precision; None where there is nothing to measure.

        caused   whether the candidate is seen computing on narrower types there
        inside   whether it is inside the model: see `_allowed`
        """
        arrays = [self._logs.get(name, key) for name in _RUNS]
        if any(a is None or a.dtype.kind != "f" for a in arrays) or not arrays[0].size:
            return None
        if len({a.shape for a in arrays}) > 1:
            return None
        ref, exact, cand, cand_exact = (a.astype(np.float64) for a in arrays)
        with np.errstate(all="ignore"):
            kept = np.isfinite(ref) & np.isfinite(exact) & np.isfinite(cand_exact)
            finite = bool(np.isfinite(cand[kept]).all())  # where the reference is
            own = np.where(kept, ref - exact, 0.0)
            other = np.where(kept & np.isfinite(cand), cand - cand_exact, 0.0)
            exact = np.where(kept, exact, 0.0)
        allowed = self._allowed(own, exact, caused, inside)
        return _errors(own, exact), _errors(other, exact), allowed, rms(exact), finite

    def _allowed(
        self, own: np.ndarray, exact: np.ndarray, caused: bool, inside: bool
    ) -> np.ndarray:
        """How large the candidate's error may be, from the reference's.

        A value inside may be rounded once where the reference does not round it.
        """
        (size_off, most_off, along_off), epsilon = _errors(own, exact), EPSILONS[self.dtype]
        # Of few values, or few that count, the measured size is chance.
        values = 1.0 + tolerance("half_spread") / np.sqrt(_effective(own))
        along = _along(own, exact)
        vectors = 1.0 + tolerance("half_spread") / np.sqrt(_effective(along))
        factor = tolerance("half_caused" if caused else "half")
        # What float32 makes of it, where neither side rounds to half precision.
        none = tolerance("half_exact") * epsilon
        rounds = size_off > none * rms(exact)
        once = 0.0 if rounds or not inside else epsilon / 2
        root = np.sqrt(exact.shape[-1]) if exact.ndim else 1.0
        # What single roundings make of it, each by itself; of one vector it is small by chance.
        size, most, least = rms(exact), np.abs(exact).max(), SMALLEST[self.dtype]
        chance = size_off / size / root if size else 0.0
        chance *= 1.0 + 2.0 * tolerance("half_spread") / np.sqrt(along.size)
        return np.array(
            [
                max(factor * values * size_off, once * size, least, none * size),
                max(2.0 * factor * values * most_off, 2.0 * once * most, least, none * most),
                max(factor * vectors * along_off, factor * chance, 2 * once / root, none),
            ]
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
        said = (side.get(f"{key.case}{name}", {}) for side in self._computed)
        return narrower_operators(*said, widest=key.is_gradient)


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


def _errors(error: np.ndarray, exact: np.ndarray) -> np.ndarray:
    return np.array([rms(error), np.abs(error).max(), rms(_along(error, exact))])


def _effective(values: np.ndarray) -> float:
    """How many values carry the mean square: all of them where they are alike, 1 of one outlier."""
    squares = np.square(values)
    total, fourth = squares.sum(), np.square(squares).sum()
    return float(total * total / fourth) if fourth > 0.0 else 1.0
