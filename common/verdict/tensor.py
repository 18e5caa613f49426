"""Judge one tensor: what can be compared at all, then by the rule, or by float32 logs alone.

NumPy only.
"""

from copy import copy

import numpy as np

from twincheck.common.system.hashes import same_bits
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.context import BY_ITSELF, Context
from twincheck.common.verdict.measures import locate, rms
from twincheck.common.verdict.row import AGREEING, NAN_ALIKE, SHAPES, Row
from twincheck.common.verdict.rule import judge_floats
from twincheck.common.verdict.tolerances import tolerance

# Of float32's mantissa.  That all values have them 0 by chance happens to a few values only.
_LOW_BITS = np.uint32(0xFFF)
# A value that float32's noise is so many times as large as keeps 24 of float64's 53 bits at most.
_LEFT = 2 ** (53 - 24 - 24)


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
    # Paddle before 2.5 had no tensors without axes: what has one element is a number.
    numbers = {array.size for array in arrays} == {1} and len({a.shape for a in arrays}) > 1
    arrays = [array.reshape(()) for array in arrays] if numbers else arrays
    if not compare_shapes(row, arrays):
        return row
    arrays = [np.asarray(array, order="C") for array in arrays]
    if arrays[0].dtype.kind in "iub":
        return judge_integers(row, arrays)
    with np.errstate(all="ignore"):
        as_they_are = list(arrays)
        nans = take_out_nans(arrays)
        if nans and not context.allow_nan:
            row.add(Kind.NAN_ALIKE(places=not_finite(as_they_are)))
            row.unlike, row.guide_passed = NAN_ALIKE, False
            return row
        infinite = take_out_infinities(arrays, nans)
        scale = compare_float32(row, *arrays[:2])
        wrong = not_finite(arrays) if row.max_abs is None or len(arrays) == 4 else []
        if wrong:
            row.add(*wrong)
            row.mean_abs = row.max_abs = row.difference = None
            row.guide_passed = False
            return row
        if len(arrays) == 2:
            row = judge_close(row, *arrays, scale)
            if row.verdict == "DIVERGED":
                row = row.decided("UNDECIDED", Kind.FLOAT32_ALONE())
        else:
            judged = judge_floats(copy(row), arrays, context)
            values = [a[..., : context.sampled] for a in arrays] if context.sampled else arrays
            # Noise about 0 has few bits by itself, and so has what is left of larger values.
            left = _LEFT * judged.scale <= max(judged.noise_ref, judged.noise_cand)
            passes = judged.verdict in AGREEING or judged.noise_only or left
            why = "" if passes else why_no_float64(values)
            if why:
                row = judge_without_float64(row, arrays, why, context.teacher_forced)
            else:
                row = judged
    if nans:
        row.nans = nans
        row.add(Kind.NANS_ALLOWED(count=nans, size=row.size))
    if infinite:
        row.add(Kind.INFINITIES_ALIKE(count=infinite, size=row.size))
    if nans or infinite:
        row.mean_abs, row.max_abs, row.guide_passed = None, None, False  # inf - inf
    return row


# ---- what can be compared ------------------------------------------------------------------------


def compare_shapes(row: Row, arrays: list[np.ndarray]) -> bool:
    """Say of a row why arrays cannot be compared, and return whether they can."""
    why = mismatch(arrays)
    row.add(why)
    shapes = [array.shape for array in arrays]
    ours, theirs, of_float64 = shapes[0], shapes[1], shapes[-2:]
    if ours != theirs or of_float64[0] == of_float64[1] != ours:
        row.unlike = SHAPES
    row.other_shape = next((shape for shape in shapes if shape != ours), None)
    return not why


def mismatch(arrays: list[np.ndarray]) -> str:
    """Why arrays cannot be compared; empty where they can."""
    kinds = (
        (Kind.SHAPES_DIFFER, Kind.DTYPES_DIFFER, Kind.DTYPE_NOT_JUDGED),
        (
            Kind.SHAPES_DIFFER_IN_FLOAT64,
            Kind.DTYPES_DIFFER_IN_FLOAT64,
            Kind.DTYPE_NOT_JUDGED_IN_FLOAT64,
        ),
    )
    for (shapes, dtypes, unknown), ref, cand in zip(kinds, arrays[::2], arrays[1::2], strict=False):
        if ref.shape != cand.shape:
            return shapes(torch=ref.shape, paddle=cand.shape)
        casts = ref is not arrays[0] and {ref.dtype.str[1:], cand.dtype.str[1:]} == {"f4", "f8"}
        if ref.dtype != cand.dtype and not casts:
            return dtypes(torch=str(ref.dtype), paddle=str(cand.dtype))
        if ref.dtype.kind not in "fiub":
            return unknown(dtype=str(ref.dtype))
    first, last = arrays[0], arrays[-1]
    if first.size == 0:
        return Kind.EMPTY_TENSOR(shape=first.shape)
    if last.shape != first.shape:
        return Kind.SHAPES_DIFFER_BY_PRECISION(float32=first.shape, float64=last.shape)
    if (last.dtype.kind == "f") != (first.dtype.kind == "f"):
        dtypes = {"float32": str(first.dtype), "float64": str(last.dtype)}
        return Kind.DTYPES_DIFFER_BY_PRECISION(**dtypes)
    return ""


def not_finite(arrays: list[np.ndarray]) -> list[Reason]:
    """Return of each run with NaN or infinities how many there are, and where the first is."""
    names = ("torch float32", "paddle float32", "torch float64", "paddle float64")
    found = []
    for name, array in zip(names, arrays, strict=False):
        finite = np.isfinite(array)
        if not finite.all():
            nans = int(np.count_nonzero(np.isnan(array)))
            infinities = int(array.size - np.count_nonzero(finite)) - nans
            first = tuple(int(i) for i in np.unravel_index(np.argmin(finite), array.shape))
            counts = {"nans": nans, "infinities": infinities, "first": first}
            found.append(Kind.NOT_FINITE(run=name, **counts))
    return found


def take_out_nans(arrays: list[np.ndarray]) -> int:
    """Put 0 for NaN that all arrays have at the same places; returns how many, 0 for other NaN."""
    nans = np.isnan(arrays[0])
    count = int(np.count_nonzero(nans))
    if not count or any(not np.array_equal(np.isnan(a), nans) for a in arrays[1:]):
        return 0
    arrays[:] = [np.where(nans, array.dtype.type(0), array) for array in arrays]
    return count


def take_out_infinities(arrays: list[np.ndarray], taken: int) -> int:
    """Put 0 for infinities that all arrays have at the same places; returns how many.

    Not where nothing else would be left beside what was `taken` out before.
    """
    infinite = np.isinf(arrays[0])
    count = int(np.count_nonzero(infinite))
    if not 0 < count < infinite.size - taken:
        return 0
    if any(not np.array_equal(a[infinite], arrays[0][infinite]) for a in arrays[1:]):
        return 0
    arrays[:] = [np.where(infinite, array.dtype.type(0), array) for array in arrays]
    return count


def judge_integers(row: Row, arrays: list[np.ndarray]) -> Row:
    """Integers and booleans must be equal, in both precisions."""
    row.allowed, row.measure = 0.0, "count"
    difference = np.abs(arrays[0].astype(np.float64) - arrays[1].astype(np.float64))
    row.mean_abs, row.max_abs = float(difference.mean()), float(difference.max())
    row.guide_passed = bool(row.mean_abs <= tolerance("guide"))
    row.beyond = 0
    kinds = Kind.INTEGERS_DIFFER, Kind.INTEGERS_DIFFER_IN_FLOAT64
    for differing, ref, cand in zip(kinds, arrays[::2], arrays[1::2], strict=False):
        different = ref != cand
        if different.any():
            row.beyond = int(np.count_nonzero(different))
            index = np.unravel_index(np.argmax(different), different.shape)
            row.worst_index = tuple(int(i) for i in index)
            row.worst_ref, row.worst_cand = float(ref[index]), float(cand[index])
            return row.decided("DIVERGED", differing(count=row.beyond, size=row.size))
    return row.decided("IDENTICAL")


# ---- float32 logs alone: CLOSE at best -----------------------------------------------------------


def compare_float32(row: Row, ref: np.ndarray, cand: np.ndarray) -> float:
    """Fill in how large torch - paddle is; returns the reference's root mean square.

    The mean is bit by bit the guide's, np.mean(np.abs(a - b)).  Where a value is not finite nothing
    is filled in.
    """
    a, b = ref.reshape(-1), cand.reshape(-1)
    difference = a - b
    np.abs(difference, out=difference)
    mean, largest = difference.mean(), difference.max()
    if a.dtype.itemsize < 4:  # whose squares are none of its own
        squares, off = (np.square(x, dtype=np.float64).sum() for x in (a, difference))
    else:
        squares, off = (float(np.dot(x, x)) for x in (a, difference))
    if not (np.isfinite(mean) and np.isfinite(largest)):
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return float("nan")
        difference = np.abs(a.astype(np.float64) - b)  # finite, but not their difference
        mean, largest = difference.mean(), difference.max()
    row.mean_abs, row.max_abs = float(mean), float(largest)
    row.guide_passed = bool(mean <= tolerance("guide"))
    # Squares of float32 values may be too small or too large for it.
    scale = np.sqrt(squares / a.size) if 1e-30 < squares < 1e30 else rms(a)
    sound = 1e-30 < off < 1e30 or not largest
    off = np.sqrt(off / a.size) if sound else rms(a.astype(np.float64) - b)
    row.difference = float(off / scale) if scale else None
    return float(scale)


def judge_close(row: Row, ref: np.ndarray, cand: np.ndarray, scale: float) -> Row:
    """Judge float32 values; `scale` is the reference's root mean square."""
    row.scale = scale
    row.allowed = tolerance("close") * scale
    row.measure = "max"
    if row.max_abs == 0.0 and same_bits(ref, cand):
        return row.decided("IDENTICAL")
    if row.guide_passed and row.max_abs <= row.allowed:
        return row.decided("CLOSE")
    if row.max_abs <= row.allowed:
        row.measure, row.allowed = "mean", tolerance("guide")
    locate(row, np.abs(ref.astype(np.float64) - cand), ref, cand)
    return row.decided("DIVERGED")


def why_no_float64(arrays: list[np.ndarray]) -> str:
    """Why four logs hold no float64 of a tensor although two are of float64 runs; empty if they do.

    A model that casts to float32 (or less) inside has no float64 path there, and its gap is
    float32's noise.
    """
    held = [_bits_held(array) for array in arrays]
    sides = [name for name, bits in zip(("torch", "paddle"), held[2:], strict=True) if bits < 64]
    if max(held) <= 16:
        return Kind.SIXTEEN_BITS()
    if sides and 32 in held[2:]:
        return Kind.FLOAT32_IN_FLOAT64(sides=" and ".join(f"{name}'s" for name in sides))
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


def judge_without_float64(row: Row, arrays: list[np.ndarray], why: str, forced: bool) -> Row:
    """Judge by float32 alone, as its logs would be.

    forced  the last array is a teacher-forced run's, which has no float32 log beside it
    """
    ref, cand = arrays[:2]
    if forced:
        ref, cand = (array.astype(np.float32) for array in arrays[2:])
        compare_float32(row, ref, cand)
    row = judge_close(row, ref, cand, rms(ref))
    row.add(why)
    return row
