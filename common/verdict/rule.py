"""The rule: is the difference of one tensor a bug, or rounding?

Both sides run in float32 and in float64 on the same weights and inputs.  For one tensor
s = rms(t64), n_t = rms(t32 - t64), n_p = rms(p32 - p64) and g = rms(t64 - p64): how large it is,
each side's own rounding noise, and the gap between the two functions.  A correct port's g / n_t is
about the ratio of the two machine epsilons, however badly conditioned the weights are.  The same
bounds hold for the maxima over elements, and for each sample where there is a batch axis, so that
one bad element or one blind sample cannot hide.

Three questions are asked, each of every measure: is the gap rounding's (`judge_rounding`)?  If not,
is it that of a constant kept in float32 (`judge_constant`)?  And is the candidate's float32 noise
that of float32 (`judge_precision`)?  Each answer names the excuses without which it would be no.
NumPy only.
"""

from copy import copy
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from common.verdict.comparable import (
    judge_integers,
    mismatch,
    not_finite,
    take_out_infinities,
    take_out_nans,
)
from common.verdict.context import BY_ITSELF, Context
from common.verdict.float32_alone import (
    compare_float32,
    judge_close,
    judge_without_float64,
    why_no_float64,
)
from common.verdict.measures import Measures, locate, measure, same_bits
from common.verdict.row import AGREEING, Row
from common.verdict.tolerances import tolerance

# A handful of values can have a small n_t by luck, so that n_p / n_t says little.  For that many
# values: factor on n_t, and on the epsilon, that keep a correct twin's alarms below 1 in 1,000.
# So can a large tensor whose noise a handful of its vectors carry: see _noisy_vectors.
_FEW = {1: (64.0, 8.0), 2: (8.0, 4.0), 3: (2.0, 2.0)}


NAN_ALIKE = "NaN at the same places on both sides"


def judge_tensor(
    key: str,
    ref32: np.ndarray,
    cand32: np.ndarray,
    ref64: np.ndarray | None = None,
    cand64: np.ndarray | None = None,
    context: Context = BY_ITSELF,
) -> Row:
    """Judge one tensor of a reference (torch) and a candidate (paddle).

    ref64, cand64  the float64 runs; without both of them nothing better than CLOSE can be said
    """
    arrays = [ref32, cand32] + ([] if ref64 is None or cand64 is None else [ref64, cand64])
    arrays = [np.asarray(array) for array in arrays]
    row = Row(key, "INVALID", size=arrays[0].size, shape=arrays[0].shape)
    row.note = mismatch(arrays)
    if row.note:
        return row
    arrays = [np.asarray(array, order="C") for array in arrays]
    if arrays[0].dtype.kind in "iub":
        return judge_integers(row, arrays)
    with np.errstate(all="ignore"):
        as_they_are = list(arrays)
        nans = take_out_nans(arrays)
        if nans and not context.allow_nan:
            meant = "if the model means them to be, --allow nan compares the others"
            row.note = f"{not_finite(as_they_are)}: {NAN_ALIKE}; {meant}"
            row.guide_passed = False
            return row
        infinite = take_out_infinities(arrays, nans)
        scale = compare_float32(row, *arrays[:2])
        if row.max_abs is None or len(arrays) == 4:
            row.note = not_finite(arrays)
        if row.note:
            row.mean_abs = row.max_abs = None
            row.guide_passed = False
            return row
        if len(arrays) == 2:
            row = judge_close(row, *arrays, scale)
        else:
            judged = _judge_floats(copy(row), arrays, context)
            values = [a[..., : context.sampled] for a in arrays] if context.sampled else arrays
            why = "" if judged.verdict in AGREEING else why_no_float64(values)
            if why:
                row = judge_without_float64(row, arrays, why, context.single_step)
            else:
                row = judged
    if nans:
        row.nans = nans
        row.add_note(f"{nans} of {row.size} values are NaN on every side: --allow nan")
    if infinite:
        row.add_note(
            f"{infinite} of {row.size} values are the same infinities on every side, as of a mask"
        )
    if nans or infinite:
        row.mean_abs, row.max_abs, row.guide_passed = None, None, False  # inf - inf
    return row


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one of the three questions, for each measure."""

    allowed: np.ndarray  # how much is allowed, all excuses included
    passed: np.ndarray  # whether no more than that was measured
    excuses: tuple[str, ...]  # those without which a measure would not have passed
    note: str = ""
    noisiness: np.ndarray | None = None  # of judge_precision: what later tensors may inherit


def _answer(measured: np.ndarray, bounds: dict[str, np.ndarray], note: str = "") -> Answer:
    """Compare with bounds: excuse -> what it allows; "" is what the rule allows without any."""
    allowed = reduce(np.maximum, bounds.values())
    passed = measured <= allowed
    needed, reached = [], measured <= bounds[""]
    for excuse, bound in bounds.items():
        if reached.all():
            break
        more = ~reached & (measured <= bound)
        if more.any():
            needed.append(excuse)
            reached |= more
    return Answer(allowed, passed, tuple(needed), note)


def _judge_floats(row: Row, arrays: list[np.ndarray], context: Context) -> Row:
    """The rule itself, on finite floats of four runs."""
    measures = measure(arrays, context.samples(row.shape), context.difference_of)
    row.noise_only = _is_only_noise(measures)
    rounding = judge_rounding(measures, context)
    constant = judge_constant(measures, context, rounding)
    precision = judge_precision(measures, context, arrays)

    level = np.where(rounding.passed, 0, np.where(constant.passed, 1, 3))
    level = np.where((level < 3) & ~precision.passed, 2, level)
    worst = int(level.max())
    if precision.noisiness is not None and worst < 2:
        context.inherited.remember(measures.samples, precision.noisiness)
    decided = 0  # the whole tensor's root mean square, where nothing is off
    if worst:
        off, allowed = measures.gap, rounding.allowed
        if worst == 2:
            off, allowed = measures.noise_cand, precision.allowed
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.nan_to_num(off / allowed, nan=0.0)
        decided = int(np.argmax(np.where(level == worst, excess, -1.0)))

    row.gap, row.noise_ref, row.noise_cand, row.scale = (
        float(getattr(measures, name)[decided])
        for name in ("gap", "noise_ref", "noise_cand", "scale")
    )
    row.capped = bool(_is_capped(measures, context)[decided])
    row.allowed = float((rounding, rounding, precision, constant)[worst].allowed[decided])
    row.measure, row.sample = measures.name_of(decided), measures.sample_of(decided)
    row.verdict = ("ROUNDING", "CONSTANT", "PRECISION", "DIVERGED")[worst]
    t32, p32, t64, p64 = arrays
    if worst < 2:
        gap = constant if worst else rounding
        row.excuse = ", ".join(dict.fromkeys(gap.excuses + precision.excuses))
        row.note = precision.note
        if worst == 0 and row.max_abs == 0.0 and same_bits(t32, p32):
            row.verdict = "IDENTICAL"
    if worst == 2:
        row.note = (
            f"paddle's float32 noise {row.noise_cand:.1e} is beyond {row.allowed:.1e}; "
            f"torch's is {row.noise_ref:.1e}"
        )
        locate(row, np.abs(p32.astype(np.float64) - p64), p64, p32)
    elif worst:
        locate(row, np.abs(t64.astype(np.float64) - p64), t64, p64)
    return row


def _is_only_noise(measures: Measures) -> bool:
    """True for a tensor that is zero in exact arithmetic, so that what is logged is noise."""
    noise = max(measures.noise_ref[0], measures.noise_cand[0])
    scale = max(measures.scale[0], measures.cand_scale[0])
    return bool(scale <= tolerance("noise_only") * noise > 0.0)


def _limit(measures: Measures, context: Context) -> np.ndarray:
    """The scale that limits what noise excuses.

    A kind's scale is a root mean square; the maxima of a tensor may be larger.
    """
    if context.kind_scale is None:
        return measures.scale
    return np.maximum(context.kind_scale, measures.scale)


def _is_capped(measures: Measures, context: Context) -> np.ndarray:
    """True where the reference's noise is too large to excuse all that it could."""
    return measures.noise_ref > tolerance("cap") * _limit(measures, context)


def _kind_floor(kind_scale: float) -> float:
    """What a whole kind may have even in a tensor that is zero: rounding of the kind's own sums.

    In a kind that is zero throughout one side may keep what a softmax leaves of exp(-64).
    """
    nothing = tolerance("nothing")
    return max(tolerance("kind_floor") * kind_scale, nothing if kind_scale < nothing else 0.0)


# ---- is the gap rounding's? ---------------------------------------------------------------------


def rounding_bounds(noise_ref, scale, limit) -> dict[str, np.ndarray]:
    """Excuse -> the largest gap that is rounding with it; "" is the rule without excuses."""
    excused = tolerance("gap") * np.minimum(noise_ref, tolerance("cap") * limit)
    return {
        "": np.maximum(excused, tolerance("floor") * scale),
        "epsilons of float32 noise": tolerance("epsilons") * noise_ref,
    }


def judge_rounding(measures: Measures, context: Context) -> Answer:
    """Is the gap between the two float64 runs what rounding makes of one function?"""
    scale = measures.scale
    bounds = rounding_bounds(measures.noise_ref, scale, _limit(measures, context))
    if context.kind_scale is not None:
        bounds["kind floor"] = _kind_floor(context.kind_scale)
    if context.fed_scale:
        # Only where float32 too shows that nearly nothing is left, and never more than a part of
        # that.
        left = tolerance("fed_floor") * context.fed_scale
        left = np.minimum(left, tolerance("fed_part") * scale)
        bounds["fed floor"] = np.where(_is_capped(measures, context), left, 0.0)
        if _is_only_noise(measures):
            bounds["zero"] = np.full_like(left, tolerance("zero_floor") * context.fed_scale)
    return _answer(measures.gap, bounds)


# ---- is it that of a constant? ------------------------------------------------------------------


def judge_constant(measures: Measures, context: Context, rounding: Answer) -> Answer:
    """Is the gap no more than a constant makes that one side keeps in float32?"""
    part = tolerance("constant") if context.constant is None else context.constant
    bounds = {"": rounding.allowed, "constant": part * measures.scale}
    return _answer(measures.gap, bounds)


# ---- is the candidate's float32 as exact as float32 is? -----------------------------------------


def judge_precision(measures: Measures, context: Context, arrays: list[np.ndarray]) -> Answer:
    """Is the candidate's float32 noise that of float32, and not of half precision or TF32?

    arrays  t32, p32, t64 and p64, which are looked at once more where the noise is beyond that
    """
    noise = measures.noise_cand
    bounds = _noise_bounds(measures, context, measures.counts)
    usual = own = list(bounds.values())[-1]  # own: what it may have beside what it inherits
    if context.inherited is not None:
        bounds["inherited noise"] = usual * context.inherited.factors(measures.samples)
    allowed = list(bounds.values())[-1]
    vectors = 0
    if not context.optimizer and not (noise <= allowed).all():
        apart = [a[..., None] for a in arrays] if context.sampled else arrays
        vectors = _noisy_vectors(apart, measures, allowed)
        if vectors:
            fewer = np.minimum(measures.counts, vectors)
            own = list(_noise_bounds(measures, context, fewer).values())[-1]
            bounds["few vectors"] = np.maximum(allowed, own)
    note = ""
    if not (noise <= usual).all():
        note = _noise_note(noise / usual, own > usual, vectors)
    answer = _answer(noise, bounds, note)
    if context.inherited is None or context.optimizer:
        return answer
    # Only what a tensor may have of its own, so that excuses do not grow from row to row.
    return replace(answer, noisiness=np.where(noise <= own, noise / usual, 0.0))


def _noise_bounds(measures: Measures, context: Context, counts: np.ndarray) -> dict:
    """Excuse -> the largest float32 noise of the candidate with it and all excuses before it.

    counts  how many values carry the noise, for each measure
    """
    noise, epsilon = measures.noise_ref, context.epsilon
    size, factor = measures.scale, tolerance("precision")
    bounds = {"": factor * np.maximum(noise, epsilon * size)}
    if _is_only_noise(measures):
        size = _limit(measures, context)
        bounds["zero gradient"] = factor * np.maximum(noise, epsilon * size)
    if context.optimizer:
        kind = "optimizer" if context.optimizer == "weight" else "carried"
        factor = tolerance(f"precision_{kind}")
        if context.kind_scale is not None:
            size = np.maximum(size, tolerance("precision_small") * context.kind_scale)
        bounds["optimizer"] = factor * np.maximum(noise, epsilon * size)
    bound = list(bounds.values())[-1]
    if counts.min() <= max(_FEW):
        luck = np.array([_FEW.get(int(count), (1.0, 1.0)) for count in counts])
        bound = factor * np.maximum(luck[:, 0] * noise, luck[:, 1] * epsilon * size)
        bounds["few values"] = bound
    if measures.samples > 1:
        # The values of one sample may share one error, small by luck: the noise of the other
        # samples counts.
        bound = bound.copy()
        for part in (slice(2, 2 + measures.samples), slice(2 + measures.samples, None)):
            usual = _median(noise[part] / np.where(size[part] > 0, size[part], np.inf))
            bound[part] = np.maximum(bound[part], factor * (usual * size[part]))
        bounds["other samples"] = bound
    if context.terms:
        terms = min(context.terms, tolerance("equal_terms_most"))
        bound = np.maximum(bound, tolerance("equal_terms") * terms * epsilon * size)
        bounds["equal terms"] = bound
    if context.longest_sum > tolerance("long_sum"):
        # One side may add one by one what the other adds in a tree.
        longer = min(context.longest_sum / tolerance("long_sum"), tolerance("long_sum_most"))
        bounds["long sum"] = bound = bound * longer
    bounds["underflow"] = bound = np.maximum(bound, tolerance("underflow"))
    if context.kind_scale is not None:
        bounds["kind floor"] = bound = np.maximum(bound, _kind_floor(context.kind_scale))
    if context.optimizer == "moment2":
        bounds["moment2"] = np.maximum(bound, tolerance("precision_moment2") * measures.scale)
    return bounds


def _median(values: np.ndarray) -> float:
    """np.median's, in a tenth of its time for the few samples of a batch."""
    ordered, half = np.sort(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _noisy_vectors(arrays: list[np.ndarray], measures: Measures, allowed: np.ndarray) -> int:
    """How many vectors carry all of the candidate's noise that is beyond what is allowed.

    Vectors lie along the last axis; of a tensor with one axis they are its values.  0: more than
    luck explains, or too few beside them to show that float32 was used.  A cast to half precision
    makes every vector noisy.  A near tie of a softmax makes one noisy, by a single error of unlucky
    size: any float32 run may have it a hundred times smaller, and one in a hundred has.
    """
    shape, samples = arrays[0].shape, measures.samples
    vectors = int(np.prod(shape[:-1])) if len(shape) > 1 else arrays[0].size
    most = max(_FEW)
    if vectors < tolerance("vectors") or vectors % samples:
        return 0
    noise = np.abs(np.subtract(arrays[1], arrays[3], dtype=np.float64))
    top = float(noise.max())
    noise = noise.reshape(samples, vectors // samples, -1) / top
    squares, maxima = np.square(noise).sum(axis=2), noise.max(axis=2)

    def carry(values: np.ndarray, size_of, limit: float) -> int:
        """The least number of vectors without which the rest is within the limit."""
        ordered = np.sort(values, axis=None)[::-1]
        fits = (k for k in range(most + 1) if size_of(ordered[k:]) * top <= limit)
        return next(fits, most + 1)

    def carriers(part, rms_limit: float, max_limit: float) -> int:
        count = noise[part].size
        return max(
            carry(squares[part], lambda rest: np.sqrt(rest.sum() / count), rms_limit),
            carry(maxima[part], lambda rest: rest.max(initial=0.0), max_limit),
        )

    count = carriers(np.s_[:], allowed[0], allowed[1])
    if samples > 1:
        limits = allowed[2:].reshape(2, samples)
        beyond = (measures.noise_cand[2:].reshape(2, samples) > limits).any(axis=0)
        each = (carriers(np.s_[i : i + 1], *limits[:, i]) for i in np.flatnonzero(beyond))
        count = max(count, sum(each))
    return count if count <= most else 0


def _noise_note(ratios: np.ndarray, by_luck: np.ndarray, vectors: int) -> str:
    """What is said of a tensor that passes although its noise is more than is usually allowed."""
    beyond = ratios > 1.0
    if (by_luck & beyond).any():
        carry = "1 vector along the last axis carries"
        if vectors > 1:
            carry = f"{vectors} vectors along the last axis carry"
        why = f"{carry} it, and the rest is as exact as float32 is"
    else:
        why = "so is what it was computed from"
    return f"paddle's float32 noise is {ratios.max():.1f} times what is usually allowed, but {why}"
