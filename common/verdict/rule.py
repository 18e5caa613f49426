"""The rule: is the difference of one tensor a bug, or rounding?

Both sides run in float32 and in float64 on the same weights and inputs.  For one tensor
s = rms(t64), n_t = rms(t32 - t64), n_p = rms(p32 - p64) and g = rms(t64 - p64): how large it is,
each side's own rounding noise, and the gap between the two functions.  A correct port's g / n_t is
about the ratio of the two machine epsilons, however badly conditioned the weights are.  The same
bounds hold for the maxima over elements, and for each sample where there is a batch axis, so that
one bad element or one blind sample cannot hide.  NumPy only; tensors are passed over in blocks.
"""

from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

import numpy as np

from common.verdict.context import Inherited
from common.verdict.row import Row
from common.verdict.tolerances import tolerance

# A handful of values can have a small n_t by luck, so that n_p / n_t says little.  For that many
# values: factor on n_t, and on the epsilon, that keep a correct twin's alarms below 1 in 1,000.
# So can a large tensor whose noise a handful of its vectors carry: see _carriers.
_FEW = {1: (64.0, 8.0), 2: (8.0, 4.0), 3: (2.0, 2.0)}


_BLOCK = 1 << 15  # elements that are worked on at a time: a few float64 buffers stay in the cache


# ---- the rule for floats ------------------------------------------------------------------------


def judge_tensor(
    key: str,
    ref32: np.ndarray,
    cand32: np.ndarray,
    ref64: np.ndarray | None = None,
    cand64: np.ndarray | None = None,
    *,
    cap: float | None = None,
    batch: int | None = None,
    optimizer: str = "",
    terms: int = 1,
    fed: float = 0.0,
    part_of: float = 0.0,
    local: bool = False,
    masks: bool = False,
    constant: float | None = None,
    inherited: Inherited | None = None,
) -> Row:
    """Judge one tensor of a reference (torch) and a candidate (paddle).

    ref64, cand64  the float64 runs; without both of them nothing better than CLOSE can be said
    cap            S, the largest s of the tensor's kind; None: the tensor's (the sample's) own s
    batch          samples are judged each by itself where the first axis has this length
    optimizer      for what optimizer steps have touched: its kind, such as weight or moment2
    terms          the longest sum that its values may be made of
    fed            how large that is which it was computed from: what is left of it may be small
    local          cand64 is a single-step run, which has no float32 one beside it
    part_of        how large that is which it is a difference of: its own size is by chance
    masks          infinities are a mask's: the same in all runs, they are left out of the judgement
    constant       how far a constant kept in float32 may bring it, as a part of its size; None:
                   the usual
    inherited      what is remembered of the noise of the tensors that it was computed from; it is
                   told of this one
    """
    arrays = [ref32, cand32] + ([] if ref64 is None or cand64 is None else [ref64, cand64])
    arrays = [np.asarray(array) for array in arrays]
    row = Row(key, "INVALID", size=arrays[0].size, shape=arrays[0].shape)
    row.note = _mismatch(arrays)
    if row.note:
        return row
    arrays = [np.asarray(array, order="C") for array in arrays]
    if arrays[0].dtype.kind in "iub":
        return _judge_integers(row, arrays)
    with np.errstate(all="ignore"):
        masked = _take_out_masks(arrays) if masks else 0
        scale = _compare_float32(row, *arrays[:2])
        if row.max_abs is None or len(arrays) == 4:
            row.note = _not_finite(arrays)
        if row.note:
            row.mean_abs = row.max_abs = None
            row.guide_passed = False
            return row
        if len(arrays) == 2:
            row = _judge_close(row, *arrays, scale)
        else:
            found = _judge_gap(
                copy(row), arrays, cap, batch, optimizer, terms, fed, part_of, constant, inherited
            )
            why = "" if found.verdict in ("IDENTICAL", "ROUNDING") else _no_float64(arrays)
            row = found if not why else _judge_without_float64(row, arrays, why, local)
    if masked:
        told = f"{masked} of {row.size} values are infinite on every side, as a mask has them"
        row.note = f"{row.note}; {told}" if row.note else told
        row.mean_abs, row.max_abs, row.guide_passed = None, None, False  # inf - inf
    return row


def _mismatch(arrays: list[np.ndarray]) -> str:
    """Why arrays cannot be compared; empty where they can."""
    precisions = ("", "in float64 ")
    for name, (ref, cand) in zip(
        precisions, zip(arrays[::2], arrays[1::2], strict=True), strict=False
    ):
        if ref.shape != cand.shape:
            return f"{name}shape {ref.shape} on the torch side, {cand.shape} on the paddle side"
        casts = name and {ref.dtype.str[1:], cand.dtype.str[1:]} == {"f4", "f8"}
        if ref.dtype != cand.dtype and not casts:
            return f"{name}dtype {ref.dtype} on the torch side, {cand.dtype} on the paddle side"
        if ref.dtype.kind not in "fiub":
            return f"{name}dtype {ref.dtype} cannot be judged"
    if arrays[0].size == 0:
        return f"an empty tensor of shape {arrays[0].shape}: nothing was compared"
    if arrays[-1].shape != arrays[0].shape:
        return f"shape {arrays[0].shape} in float32, {arrays[-1].shape} in float64"
    if (arrays[-1].dtype.kind == "f") != (arrays[0].dtype.kind == "f"):
        return f"dtype {arrays[0].dtype} in the float32 run, {arrays[-1].dtype} in float64"
    return ""


def _not_finite(arrays: list[np.ndarray]) -> str:
    """How many values are NaN or infinite, on which side, and where the first is."""
    names = ("torch float32", "paddle float32", "torch float64", "paddle float64")
    found = []
    for name, array in zip(names, arrays, strict=False):
        finite = np.isfinite(array)
        if not finite.all():
            nans = int(np.count_nonzero(np.isnan(array)))
            infinities = int(array.size - np.count_nonzero(finite)) - nans
            first = tuple(int(i) for i in np.unravel_index(np.argmin(finite), array.shape))
            found.append(f"{name}: {nans} NaN, {infinities} infinite, first at {first}")
    return "; ".join(found)


def _take_out_masks(arrays: list[np.ndarray]) -> int:
    """Put 0 for infinities that all arrays have at the same places; returns how many.

    Not where nothing else would be left.
    """
    infinite = np.isinf(arrays[0])
    count = int(np.count_nonzero(infinite))
    if not 0 < count < infinite.size:
        return 0
    if any(not np.array_equal(a[infinite], arrays[0][infinite]) for a in arrays[1:]):
        return 0
    arrays[:] = [np.where(infinite, array.dtype.type(0), array) for array in arrays]
    return count


def _compare_float32(row: Row, ref: np.ndarray, cand: np.ndarray) -> float:
    """Fill in mean and maximum of |torch - paddle|; returns the reference's rms (NaN: see there).

    The mean is summed as NumPy sums it, block by block, so that it is bit by bit what the guide's
    np.mean(np.abs(a - b)) gives.
    """
    a, b = ref.reshape(-1), cand.reshape(-1)
    if a.dtype.itemsize < 4:  # NumPy sums float16 in float32: no blocks for these
        difference = np.abs(a - b)
        mean, largest = difference.mean(), difference.max()
        squares = np.square(a, dtype=np.float64).sum()
    else:
        buffer = np.empty(min(a.size, 2 * _BLOCK), a.dtype)
        total, largest, squares = _sum_blocks(a, b, buffer, 0, a.size)
        mean = total / a.dtype.type(a.size)
    if not (np.isfinite(mean) and np.isfinite(largest)):
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return float("nan")
        difference = np.abs(a.astype(np.float64) - b)  # finite, but not their difference
        mean, largest = difference.mean(), difference.max()
    row.mean_abs, row.max_abs = float(mean), float(largest)
    row.guide_passed = bool(mean <= tolerance("guide"))
    if not 1e-30 < squares < 1e30:  # squares of very small or large float32 values
        return _rms(a)
    return float(np.sqrt(squares / a.size))


def _sum_blocks(a, b, buffer, start: int, count: int):
    """Sum and maximum of |a - b| and the sum of a², halving as NumPy's pairwise sum does."""
    if count <= buffer.size:
        block, out = a[start : start + count], buffer[:count]
        np.subtract(block, b[start : start + count], out=out)
        np.abs(out, out=out)
        return np.add.reduce(out), np.maximum.reduce(out), float(np.dot(block, block))
    half = count // 2
    half -= half % 8
    first = _sum_blocks(a, b, buffer, start, half)
    second = _sum_blocks(a, b, buffer, start + half, count - half)
    return first[0] + second[0], np.maximum(first[1], second[1]), first[2] + second[2]


def _rms(values: np.ndarray) -> float:
    """Root of the mean square in float64, safe for squares that float64 cannot hold."""
    values = values.astype(np.float64)
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return 0.0
    return largest * float(np.sqrt(np.mean(np.square(values / largest))))


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    kind = f"u{a.dtype.itemsize}"
    return np.array_equal(a.reshape(-1).view(kind), b.reshape(-1).view(kind))


def _judge_close(row: Row, ref: np.ndarray, cand: np.ndarray, scale: float) -> Row:
    """Float32 logs alone."""
    row.scale = scale
    row.allowed = tolerance("close") * scale
    row.measure = "max"
    if row.max_abs == 0.0 and _same_bits(ref, cand):
        row.verdict = "IDENTICAL"
    elif row.guide_passed and row.max_abs <= row.allowed:
        row.verdict = "CLOSE"
    else:
        row.verdict = "DIVERGED"
        if row.max_abs <= row.allowed:
            row.measure, row.allowed = "mean", tolerance("guide")
        _locate(row, np.abs(ref.astype(np.float64) - cand), ref, cand)
    return row


_LOW_BITS = np.uint32(0xFFF)  # of float32's mantissa: a few values with all of them 0 are no chance


def _no_float64(arrays: list[np.ndarray]) -> str:
    """Why four logs hold no float64 of a tensor although two are of float64 runs; empty if they do.

    A model that casts to float32 (or less) inside has no float64 path there, and its gap is
    float32's noise.
    """
    held = [_bits_held(array) for array in arrays]
    sides = [name for name, bits in zip(("torch", "paddle"), held[2:], strict=True) if bits < 64]
    if max(held) <= 16:
        return "every run holds values of 16 bits here: the model casts to half precision"
    if sides and 32 in held[2:]:
        who = " and ".join(f"{name}'s" for name in sides)
        return f"{who} float64 run holds float32 values here: the model casts"
    return ""


def _bits_held(array: np.ndarray) -> int:
    """16, 32 or 64: the smallest float that holds all values (16: float16 or bfloat16)."""
    if array.dtype.itemsize <= 2:
        return 16
    with np.errstate(over="ignore", under="ignore"):
        small = array.astype(np.float32)
    if not np.array_equal(small, array):
        return 64
    bits = small.view(np.uint32) if small.ndim else small.reshape(1).view(np.uint32)
    if not (bits & np.uint32(0xFFFF)).any():
        return 16
    return 32 if (bits & _LOW_BITS).any() else 16


def _judge_without_float64(row: Row, arrays: list[np.ndarray], why: str, local: bool) -> Row:
    """Judge by float32 alone, as its logs would be."""
    ref, cand = arrays[:2]
    if local:
        ref, cand = (array.astype(np.float32) for array in arrays[2:])
        _compare_float32(row, ref, cand)
    row = _judge_close(row, ref, cand, _rms(ref))
    said = "so float32 alone decides, and nothing better than CLOSE can be said"
    row.note = "; ".join(filter(None, (row.note, f"{why}, {said}")))
    return row


class _Statistics(NamedTuple):
    """Root mean squares and maxima of the four differences, one entry per sample."""

    rms: np.ndarray  # (5, samples): gap, torch's noise, paddle's noise, |t64|, |p64|
    maximum: np.ndarray  # (5, samples)


def _gather(arrays: list[np.ndarray], samples: int) -> _Statistics:
    """One pass over four arrays of equal shape, in blocks; samples lie along the first axis."""
    t32, p32, t64, p64 = (array.reshape(samples, -1) for array in arrays)
    width = t32.shape[1]
    rows, columns = max(1, _BLOCK // width), min(width, _BLOCK)
    buffer = np.empty((rows, columns))
    squares, maximum = np.zeros((5, samples)), np.zeros((5, samples))
    for top in range(0, samples, rows):
        for left in range(0, width, columns):
            part = np.s_[top : top + rows, left : left + columns]
            here = slice(top, top + rows)
            for i, (a, b) in enumerate(
                ((t64, p64), (t32, t64), (p32, p64), (t64, None), (p64, None))
            ):
                block = buffer[: len(a[part]), : a[part].shape[1]]
                if b is None:
                    np.abs(a[part], out=block)
                else:
                    np.subtract(a[part], b[part], out=block, dtype=np.float64)
                    np.abs(block, out=block)
                squares[i, here] += np.einsum("ij,ij->i", block, block)
                np.maximum(maximum[i, here], block.max(axis=1), out=maximum[i, here])
    return _Statistics(np.sqrt(squares / width), maximum)


def _judge_gap(
    row: Row,
    arrays: list[np.ndarray],
    cap: float | None,
    batch: int | None,
    optimizer: str,
    terms: int,
    fed: float,
    part_of: float,
    constant_part: float | None,
    inherited: Inherited | None,
) -> Row:
    """The rule itself, on finite floats."""
    shape = arrays[0].shape
    samples = shape[0] if shape and batch == shape[0] and batch > 1 else 1
    stats = _gather(arrays, samples)
    largest = float(stats.maximum.max())
    if largest > 0.0 and not 1e-130 < largest < 1e130:
        # Squares would leave float64's range.  Powers of two change no digit.
        factor = 2.0 ** -int(np.log2(largest))
        stats = _gather([array.astype(np.float64) * factor for array in arrays], samples)
        stats = _Statistics(stats.rms / factor, stats.maximum / factor)

    # The candidates for what decides: rms and maximum of the whole, then of each sample.
    whole_rms = np.sqrt(np.mean(np.square(stats.rms / (largest or 1.0)), axis=1)) * largest
    columns = [whole_rms, stats.maximum.max(axis=1)]
    widths = [row.size] * 2
    if samples > 1:
        columns += [*stats.rms.T, *stats.maximum.T]
        widths += [row.size // samples] * 2 * samples
    gap, noise_ref, noise_cand, scale, cand_scale = np.array(columns).T  # each (2 + 2 * samples)
    widths = np.array(widths)

    scale = np.maximum(scale, part_of)
    constant_part = tolerance("constant") if constant_part is None else constant_part

    # A kind's S is a root mean square; the maxima of a tensor may be larger.
    limit = scale if cap is None else np.maximum(cap, scale)
    capped = noise_ref > tolerance("cap") * limit
    rounding = rounding_bound(noise_ref, scale, limit)
    if cap is not None:
        nothing = tolerance("nothing")
        floor = max(tolerance("kind_floor") * cap, nothing if cap < nothing else 0.0)
        rounding = np.maximum(rounding, floor)
    # Only where float32 too shows that nearly nothing is left, and never more than a part of that.
    left = np.minimum(tolerance("fed_floor") * fed, tolerance("fed_part") * scale)
    rounding = np.where(capped, np.maximum(rounding, left), rounding)
    constant = np.maximum(rounding, constant_part * scale)
    noise = max(noise_ref[0], noise_cand[0])
    row.noise_only = bool(max(scale[0], cand_scale[0]) <= tolerance("noise_only") * noise > 0.0)
    size = limit if row.noise_only else scale
    if optimizer and cap is not None:
        size = np.maximum(size, tolerance("precision_small") * cap)

    def float32_noise(values: np.ndarray) -> np.ndarray:
        """The largest noise that is float32's, where so many values carry it."""
        bound = _precision_bound(noise_ref, size, values, samples, optimizer)
        bound = np.maximum(bound * _long_sum(terms), tolerance("underflow"))
        if cap is not None:
            # A kind that is zero throughout: one side may keep what a softmax leaves of exp(-64).
            bound = np.maximum(bound, tolerance("kind_floor") * cap if cap >= nothing else nothing)
        if optimizer == "moment2":
            bound = np.maximum(bound, tolerance("precision_moment2") * scale)
        return bound

    usual = own = float32_noise(widths)  # own: what the tensor may have beside what it inherits
    precision = usual if inherited is None else usual * inherited.excuse(samples)
    carriers = 0
    if not optimizer and not (noise_cand <= precision).all():
        carriers = _carriers(arrays, samples, noise_cand, precision)
        if carriers:
            own = float32_noise(np.minimum(widths, carriers))
            precision = np.maximum(precision, own)

    level = np.where(gap <= rounding, 0, np.where(gap <= constant, 1, 3))
    level = np.where((level < 3) & ~(noise_cand <= precision), 2, level)
    verdict = int(level.max())
    if inherited is not None and not optimizer and verdict < 2:
        # Only what a tensor may have of its own, so that excuses do not grow from row to row.
        inherited.remember(samples, np.where(noise_cand <= own, noise_cand / usual, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = noise_cand / precision if verdict == 2 else gap / rounding
    excess = np.where(level == verdict, np.nan_to_num(excess, nan=0.0), -1.0)
    decided = int(np.argmax(excess)) if verdict else 0

    row.gap, row.noise_ref, row.noise_cand, row.scale = (
        float(values[decided]) for values in (gap, noise_ref, noise_cand, scale)
    )
    row.capped = bool(capped[decided])
    row.allowed = float((rounding, constant, precision, constant)[verdict][decided])
    if verdict == 1:
        row.allowed = float(rounding[decided])
    row.measure = "rms" if decided == 0 or 2 <= decided < 2 + samples else "max"
    row.sample = (decided - 2) % samples if decided >= 2 else None
    row.verdict = ("ROUNDING", "CONSTANT", "PRECISION", "DIVERGED")[verdict]
    if verdict < 2 and not (noise_cand <= usual).all():
        row.note = _excuse(noise_cand / usual, own > usual, carriers)
    t32, p32, t64, p64 = arrays
    if verdict == 0:
        if row.max_abs == 0.0 and _same_bits(t32, p32):
            row.verdict = "IDENTICAL"
    elif verdict == 2:
        row.note = (
            f"paddle's float32 noise {row.noise_cand:.1e} is beyond {row.allowed:.1e}; "
            f"torch's is {row.noise_ref:.1e}"
        )
        _locate(row, np.abs(p32.astype(np.float64) - p64), p64, p32)
    else:
        _locate(row, np.abs(t64.astype(np.float64) - p64), t64, p64)
    return row


def rounding_bound(noise_ref, scale, limit):
    """The largest gap that is rounding."""
    excused = tolerance("gap") * np.minimum(noise_ref, tolerance("cap") * limit)
    excused = np.maximum(excused, tolerance("epsilons") * noise_ref)
    return np.maximum(excused, tolerance("floor") * scale)


def _precision_bound(noise_ref, scale, widths, samples: int, optimizer: str):
    """The largest float32 noise of the candidate that is still float32's."""
    kinds = {"": "precision", "weight": "precision_optimizer"}
    factor = tolerance(kinds.get(optimizer, "precision_carried"))
    luck = np.array([_FEW.get(int(width), (1.0, 1.0)) for width in widths])
    bound = np.maximum(luck[:, 0] * noise_ref, luck[:, 1] * tolerance("float32_epsilon") * scale)
    if samples > 1:
        # The values of one sample may share one error, small by luck: its fellows' noise counts.
        for part in (slice(2, 2 + samples), slice(2 + samples, None)):
            usual = np.median(noise_ref[part] / np.where(scale[part] > 0, scale[part], np.inf))
            bound[part] = np.maximum(bound[part], usual * scale[part])
    return factor * bound


def _carriers(arrays: list[np.ndarray], samples: int, noise_cand, allowed) -> int:
    """How many vectors carry all of the candidate's noise that is beyond what is allowed.

    Vectors lie along the last axis; of a tensor with one axis they are its values.  0: more than
    luck explains, or too few beside them to show that float32 was used.  A cast to half precision
    makes every vector noisy.  A near tie of a softmax makes one noisy, by a single error of unlucky
    size: any float32 run may have it a hundred times smaller, and one in a hundred has.
    """
    shape = arrays[0].shape
    vectors = int(np.prod(shape[:-1])) if len(shape) > 1 else arrays[0].size
    most = max(_FEW)
    if vectors < tolerance("vectors") or vectors % samples:
        return 0
    noise = np.abs(np.subtract(arrays[1], arrays[3], dtype=np.float64))
    top = float(noise.max())
    noise = noise.reshape(samples, vectors // samples, -1) / top
    squares, maxima = np.square(noise).sum(axis=2), noise.max(axis=2)

    def carry(values: np.ndarray, measure, limit: float) -> int:
        """The least number of vectors without which the rest is within the limit."""
        ordered = np.sort(values, axis=None)[::-1]
        fits = (k for k in range(most + 1) if measure(ordered[k:]) * top <= limit)
        return next(fits, most + 1)

    def measured(part, rms_limit: float, max_limit: float) -> int:
        count = noise[part].size
        return max(
            carry(squares[part], lambda rest: np.sqrt(rest.sum() / count), rms_limit),
            carry(maxima[part], lambda rest: rest.max(initial=0.0), max_limit),
        )

    found = measured(np.s_[:], allowed[0], allowed[1])
    if samples > 1:
        limits = allowed[2:].reshape(2, samples)
        off = np.flatnonzero((noise_cand[2:].reshape(2, samples) > limits).any(axis=0))
        found = max(found, sum(measured(np.s_[i : i + 1], *limits[:, i]) for i in off))
    return found if found <= most else 0


def _excuse(ratios: np.ndarray, by_luck: np.ndarray, carriers: int) -> str:
    """What is said of a tensor that passes although its noise is more than is usually allowed."""
    beyond = ratios > 1.0
    if (by_luck & beyond).any():
        carry = "1 vector along the last axis carries"
        if carriers > 1:
            carry = f"{carriers} vectors along the last axis carry"
        why = f"{carry} it, and the rest is as exact as float32 is"
    else:
        why = "so is what it was computed from"
    return f"paddle's float32 noise is {ratios.max():.1f} times what is usually allowed, but {why}"


def _long_sum(terms: int) -> float:
    """How much noisier one side may be where it adds one by one what the other adds in a tree."""
    return min(max(1.0, terms / tolerance("long_sum")), tolerance("long_sum_most"))


def _locate(row: Row, difference: np.ndarray, ref: np.ndarray, cand: np.ndarray) -> None:
    """How many elements are beyond what was allowed, and which is worst (in the sample, if any)."""
    first = ()
    if row.sample is not None:
        first, difference = (row.sample,), difference[row.sample]
    row.beyond = int(np.count_nonzero(~(difference <= row.allowed)))
    index = np.unravel_index(np.argmax(difference), difference.shape)
    row.worst_index = first + tuple(int(i) for i in index)
    row.worst_ref, row.worst_cand = float(ref[row.worst_index]), float(cand[row.worst_index])


# ---- integers, and what helps to read rows ------------------------------------------------------


def _judge_integers(row: Row, arrays: list[np.ndarray]) -> Row:
    """Integers and booleans must be equal, in both precisions."""
    row.allowed, row.measure = 0.0, "count"
    difference = np.abs(arrays[0].astype(np.float64) - arrays[1].astype(np.float64))
    row.mean_abs, row.max_abs = float(difference.mean()), float(difference.max())
    row.guide_passed = bool(row.mean_abs <= tolerance("guide"))
    row.verdict, row.beyond = "IDENTICAL", 0
    for name, ref, cand in zip(("", "float64: "), arrays[::2], arrays[1::2], strict=False):
        different = ref != cand
        if different.any():
            row.verdict = "DIVERGED"
            row.beyond = int(np.count_nonzero(different))
            row.note = f"{name}{row.beyond} of {row.size} differ; integers must be equal"
            index = np.unravel_index(np.argmax(different), different.shape)
            row.worst_index = tuple(int(i) for i in index)
            row.worst_ref, row.worst_cand = float(ref[index]), float(cand[index])
            break
    return row


def largest_scale(arrays: Iterable[np.ndarray]) -> float:
    """S of a kind: the largest root mean square among its tensors; 0 for none."""
    scales = [0.0]
    for array in arrays:
        if array.size and array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                scale = _rms(array)
            scales.append(scale if np.isfinite(scale) else 0.0)
    return max(scales)


def note_gradient(row: Row, ref: np.ndarray, cand: np.ndarray) -> None:
    """Name a gradient whose agreement shows nothing: all zero, constant, or noise on both sides."""
    values = np.asarray(ref).reshape(-1)
    others = np.asarray(cand).reshape(-1)
    if not values.any() and not others.any():
        note = "all zero"
    elif row.noise_only:
        note = "zero in exact arithmetic: noise on both sides"
    elif values.size > 1 and (values == values[0]).all():
        note = "constant"
    else:
        return
    row.note = f"{row.note}; {note}" if row.note else note
