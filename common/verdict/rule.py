"""The rule: is the difference of one tensor a bug, or rounding?

Both sides run in float32 and in float64 on the same weights and inputs.  For one tensor
s = rms(t64), n_t = rms(t32 - t64), n_p = rms(p32 - p64) and g = rms(t64 - p64): how large it is,
each side's own rounding noise, and the gap between the two functions.  A correct port's g / n_t is
about the ratio of the two machine epsilons, however badly conditioned the weights are.  The same
bounds hold for the maxima over elements, and for each sample where there is a batch axis, so that
one bad element or one blind sample cannot hide.

Three questions are asked, each of every measure: is the gap rounding's (`judge_rounding`)?  If not,
is it that of a constant kept in float32 (`judge_constant`)?  And is the candidate's float32 noise
that of float32 (`judge_precision`)?

n_t is one draw, and may be small by luck.  Where the plain rule says no, the noise that rounding
makes of the reference is therefore measured (common/logs/noise.py), at float32's size and at
float64's, and the same questions are asked with it.  Each answer names what it took beside the
plain rule.  NumPy only.
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

# What it took beside the plain rule: the noise, measured; or further runs of the candidate, since
# luck does not repeat, such as an activation that rounding alone has put across a ReLU's 0.
MEASURED, REPEATED = "measured noise", "a repeated run"
NO_BETTER = "no repeated run is exact enough"  # in the note of a row
ONE_ROUNDING = 0.2  # epsilons: the root mean square of what one leaves
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
            row.mean_abs = row.max_abs = row.difference = None
            row.guide_passed = False
            return row
        if len(arrays) == 2:
            row = judge_close(row, *arrays, scale)
        else:
            judged = _judge_floats(copy(row), arrays, context)
            values = [a[..., : context.sampled] for a in arrays] if context.sampled else arrays
            # Noise about 0 has few bits by itself.
            passes = judged.verdict in AGREEING or judged.noise_only
            why = "" if passes else why_no_float64(values)
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


def _answer(measured: np.ndarray, bounds: dict[str, np.ndarray]) -> Answer:
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
    return Answer(allowed, passed, tuple(needed))


def _judge_floats(row: Row, arrays: list[np.ndarray], context: Context) -> Row:
    """The rule itself, on finite floats of four runs."""
    measures = measure(arrays, context.samples(row.shape), context.difference_of)
    row.noise_only = _is_only_noise(measures, context)
    noise = 0.0 if context.noise is None else _measured(measures, context, 0)[0]
    size = measures.scale[0]
    row.measured = bool(noise > 0.0)
    if size and not context.difference_of:  # whose size is not its own
        one_run = max(measures.noise_ref[0], ONE_ROUNDING * context.epsilon * size)
        row.noise = float((noise or one_run) / size)
    rounding = judge_rounding(measures, context)
    constant = judge_constant(measures, context, rounding)
    precision = judge_precision(measures, context)
    excuses = rounding.excuses
    if not precision.passed.all() and context.again:
        t32, _, t64, p64 = arrays
        others = [measure([t32, a, t64, p64], measures.samples).noise_cand for a in context.again]
        noise = np.minimum.reduce([measures.noise_cand, *others])
        measures = replace(measures, noise_cand=noise)
        precision = judge_precision(measures, context)
        excuses = (*excuses, REPEATED)

    level = np.where(rounding.passed, 0, np.where(constant.passed, 1, 3))
    level = np.where((level < 3) & ~precision.passed, 2, level)
    worst = int(level.max())
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
        excuses = (constant.excuses if worst else ()) + excuses + precision.excuses
        row.excuse = ", ".join(dict.fromkeys(excuses))
        if worst == 0 and row.max_abs == 0.0 and same_bits(t32, p32):
            row.verdict = "IDENTICAL"
    if worst == 2:
        row.note = NO_BETTER if context.again else ""
        locate(row, np.abs(p32.astype(np.float64) - p64), p64, p32)
    elif worst:
        locate(row, np.abs(t64.astype(np.float64) - p64), t64, p64)
    return row


def _is_only_noise(measures: Measures, context: Context) -> bool:
    """True for a tensor that is zero in exact arithmetic, so that what is logged is noise."""
    noise = max(measures.noise_ref[0], measures.noise_cand[0])
    if context.noise is not None:
        noise = max(noise, _measured(measures, context, 0)[0])
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


def _measured(measures: Measures, context: Context, size: int) -> np.ndarray:
    """The measured noise, in the order of the measures; 0 where it is none of rounding's.

    size   0: float32's, 1: float64's
    """
    noise = context.noise
    if noise.shape[1] != measures.gap.size:
        whole = noise[:, :2].repeat(measures.samples if measures.samples > 1 else 0, axis=1)
        noise = np.concatenate([noise[:, :2], whole], axis=1)
    if context.optimizer:  # whose steps may be whole ones of any noise
        return noise[size]
    return np.where(noise[1] <= tolerance("saturated") * noise[0], noise[size], 0.0)


# ---- is the gap rounding's? ---------------------------------------------------------------------


def rounding_bound(noise_ref, scale, limit) -> np.ndarray:
    """The largest gap that the plain rule takes for rounding."""
    excused = tolerance("gap") * np.minimum(noise_ref, tolerance("cap") * limit)
    return np.maximum(excused, tolerance("floor") * scale)


def judge_rounding(measures: Measures, context: Context) -> Answer:
    """Is the gap between the two float64 runs what rounding makes of one function?"""
    plain = rounding_bound(measures.noise_ref, measures.scale, _limit(measures, context))
    bounds = {"": plain}
    if context.noise is not None:
        bounds[MEASURED] = tolerance("measured_gap") * _measured(measures, context, 1)
    return _answer(measures.gap, bounds)


# ---- is it that of a constant? ------------------------------------------------------------------


def judge_constant(measures: Measures, context: Context, rounding: Answer) -> Answer:
    """Is the gap no more than a constant makes that one side keeps in float32?"""
    part = tolerance("constant") if context.constant is None else context.constant
    bounds = {"": rounding.allowed, "constant": part * measures.scale}
    return _answer(measures.gap, bounds)


# ---- is the candidate's float32 as exact as float32 is? -----------------------------------------


def judge_precision(measures: Measures, context: Context) -> Answer:
    """Is the candidate's float32 noise that of float32, and not of half precision or TF32?"""
    # One rounding is no less than the smallest normal number: one side may keep no smaller ones.
    # Nor is a rounding of a rounding, of the largest of its kind, a loss of precision.
    epsilon = context.epsilon
    least = max(np.finfo(np.float32).tiny, epsilon**2 * (context.kind_scale or 0.0))
    noise = np.maximum(measures.noise_ref, least)
    size, factor = measures.scale, tolerance("precision")
    bounds = {"": factor * np.maximum(noise, epsilon * size)}
    if context.optimizer:
        kind = "optimizer" if context.optimizer == "weight" else "carried"
        least = size
        if context.kind_scale is not None:
            least = np.maximum(size, tolerance("precision_small") * context.kind_scale)
        factor = tolerance(f"precision_{kind}")
        bounds["optimizer"] = factor * np.maximum(noise, epsilon * least)
    if context.optimizer == "moment2":
        bounds["moment2"] = tolerance("precision_moment2") * size
    if context.noise is not None:
        single = np.where(measures.counts == 1, 2.0, 1.0)  # one value's may be small by luck
        bounds[MEASURED] = factor * single * _measured(measures, context, 0)
    if context.longest_sum > tolerance("long_sum"):
        # One side may add one by one what the other adds in a tree.
        longer = min(context.longest_sum / tolerance("long_sum"), tolerance("long_sum_most"))
        bounds["long sum"] = reduce(np.maximum, bounds.values()) * longer
    return _answer(measures.noise_cand, bounds)
