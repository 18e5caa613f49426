"""The rule: is the difference of one tensor a bug, or rounding?

Both sides run in float32 and in float64.  For one tensor s = rms(t64), n_t = rms(t32 - t64),
n_p = rms(p32 - p64) and g = rms(t64 - p64): how large it is, each side's own rounding noise, and
the gap between the two functions.  The same bounds hold for the maxima over elements, and for each
sample of a batch, so that one bad element or one blind sample cannot hide.

    plain      g <= 1e-4 n_t, or 1e-12 s        rounding's gap, however badly conditioned a model is
               n_p <= 16 max(n_t, eps s)        float32 was used
    measured   n_t is one draw, and may be small by luck: how far moves of one rounding bring the
               reference is measured (common/logs/noise.py): g at float64's size, n_p at float32's
    repeated   luck does not repeat: n_p becomes the least of the candidate's further runs, which
               come first where n_p alone is in doubt
    proven     what no noise explains is shown by further runs (common/verdict/settle.py)

A gap of no more than 2.4e-7 s is CONSTANT, where one is shown to be the cause.  NumPy only.
"""

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from twincheck.common.system.hashes import same_bits
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.context import Context
from twincheck.common.verdict.measures import Measures, locate, measure
from twincheck.common.verdict.row import Row
from twincheck.common.verdict.tolerances import tolerance


class Answer(NamedTuple):
    """The answer to one question, for each measure; with the excuses that it needed."""

    allowed: np.ndarray
    passed: np.ndarray
    excuses: tuple[Kind, ...]


def judge_floats(row: Row, arrays: list[np.ndarray], context: Context) -> Row:
    """The rule itself, on t32, p32, t64 and p64: finite floats of one shape."""
    measures = measure(arrays, context.samples(row.shape), context.difference_of)
    noise = _measured(measures, context)
    _say_noise(row, measures, noise[0][0], context)
    # Is the gap between the two float64 runs what rounding makes of one function?
    plain = rounding_bound(measures.noise_ref, measures.scale, _limit(measures, context))
    measured = tolerance("measured_gap") * noise[1]
    rounding = _answer(measures.gap, {None: plain, Kind.MEASURED: measured})
    constant = np.maximum(rounding.allowed, tolerance("constant") * measures.scale)
    precision = judge_precision(measures, context, noise[0])
    again = () if precision.passed.all() else context.again()
    # Such as where rounding has put an activation across a ReLU's 0.
    excuses = (*rounding.excuses, Kind.REPEATED) if again else rounding.excuses
    if again:
        runs = ([arrays[0], cand32, *arrays[2:]] for cand32 in again)
        errors = [measures.noise_cand, *(measure(run, measures.samples).noise_cand for run in runs)]
        measures = replace(measures, noise_cand=np.fmin.reduce(errors))  # a run's NaN shows nothing
        precision = judge_precision(measures, context, noise[0])

    level = np.where(rounding.passed, 0, np.where(measures.gap <= constant, 1, 3))
    level = np.where((level < 3) & ~precision.passed, 2, level)
    worst, decided = int(level.max()), 0  # the whole tensor, where nothing is off
    off, limit = (measures.noise_cand, precision) if worst == 2 else (measures.gap, rounding)
    if worst:
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.nan_to_num(off / limit.allowed, nan=0.0)
        decided = int(np.argmax(np.where(level == worst, excess, -1.0)))
    for name in ("gap", "noise_ref", "noise_cand", "scale"):
        setattr(row, name, float(getattr(measures, name)[decided]))
    row.allowed = float((limit.allowed if worst < 3 else constant)[decided])
    row.capped = bool(row.noise_ref > tolerance("cap") * _limit(measures, context)[decided])
    row.measure, row.sample = measures.name_of(decided), measures.sample_of(decided)
    verdict = ("ROUNDING", "CONSTANT", "PRECISION", "DIVERGED")[worst]
    t32, p32, t64, p64 = arrays
    if worst == 2:
        locate(row, np.abs(p32.astype(np.float64) - p64), p64, p32)
        why = Kind.NOT_REPEATED() if again else ""
        return row.decided(verdict, why, repeated=bool(again))
    if worst:
        locate(row, np.abs(t64.astype(np.float64) - p64), t64, p64)
    elif row.max_abs == 0.0 and same_bits(t32, p32):
        verdict = "IDENTICAL"
    excuses = tuple(dict.fromkeys((*excuses, *precision.excuses))) if worst < 2 else ()
    return row.decided(verdict, excuses=excuses)


def rounding_bound(noise_ref, scale, limit) -> np.ndarray:
    """The largest gap that the plain rule takes for rounding."""
    excused = tolerance("gap") * np.minimum(noise_ref, tolerance("cap") * limit)
    return np.maximum(excused, tolerance("floor") * scale)


def judge_precision(measures: Measures, context: Context, noise: np.ndarray) -> Answer:
    """Is the candidate's float32 noise that of float32, and not of half precision or TF32?"""
    # One rounding is no less than the smallest normal number: one side may keep no smaller ones.
    # Nor is a rounding of a rounding, of the largest of its kind, a loss of precision.
    epsilon, factor = context.epsilon, tolerance("precision")
    least = max(np.finfo(np.float32).tiny, epsilon**2 * (context.kind_scale or 0.0))
    plain = np.maximum(np.maximum(measures.noise_ref, least), epsilon * measures.scale)
    single = np.where(measures.counts == 1, 2.0, 1.0)  # one value's may be small by luck
    most = np.maximum(plain, single * noise)
    if context.varied:
        plain = np.full_like(plain, np.inf)
    bounds = {None: plain, Kind.MEASURED: most, Kind.NOISY_OPERATOR: context.noisier * most}
    return _answer(measures.noise_cand, {name: factor * bound for name, bound in bounds.items()})


def _answer(measured: np.ndarray, bounds: dict[Kind | None, np.ndarray]) -> Answer:
    """Compare with bounds: excuse -> what it allows; None is what the rule allows without any."""
    needed, reached = [], measured <= bounds[None]
    for excuse, bound in () if reached.all() else bounds.items():
        more = ~reached & (measured <= bound)
        if more.any():
            needed.append(excuse)
            reached = reached | more
    return Answer(reduce(np.maximum, bounds.values()), reached, tuple(needed))


def _measured(measures: Measures, context: Context) -> np.ndarray:
    """The measured noise of float32's size and of float64's, of each measure.

    0 where it is not known, or is no rounding's; an optimizer's steps may be whole ones of any.
    """
    if context.noise is None:
        return np.zeros((2, measures.gap.size))
    noise = np.where(np.isfinite(context.noise), context.noise, 0.0)
    if noise.shape[1] != measures.gap.size:
        whole = noise[:, :2].repeat(measures.samples if measures.samples > 1 else 0, axis=1)
        noise = np.concatenate([noise[:, :2], whole], axis=1)
    return np.where(context.stepped | (noise[1] <= tolerance("saturated") * noise[0]), noise, 0.0)


def _say_noise(row: Row, measures: Measures, noise: float, context: Context) -> None:
    """Say how much of the tensor is noise: all of it, where it is zero in exact arithmetic."""
    size, largest = measures.scale[0], max(measures.noise_ref[0], measures.noise_cand[0], noise)
    scale = max(size, measures.cand_scale[0])
    row.noise_only = bool(scale <= tolerance("noise_only") * largest > 0.0)
    row.measured = bool(noise > 0.0)
    if size and not context.difference_of:  # whose size is not its own
        one_run = max(measures.noise_ref[0], context.epsilon / 2 * size)
        row.noise = float((noise or one_run) / size)


def _limit(measures: Measures, context: Context) -> np.ndarray:
    """The scale that limits what noise excuses; of a kind, whose maxima may be larger."""
    return np.maximum(context.kind_scale or 0.0, measures.scale)
