"""What float32 logs alone can say of a tensor: CLOSE at best; and where float64 logs hold no more.

NumPy only.
"""

import numpy as np

from common.verdict.measures import BLOCK, locate, rms, same_bits
from common.verdict.row import Row
from common.verdict.tolerances import tolerance

# Of float32's mantissa.  That all values have them 0 by chance happens to a few values only.
_LOW_BITS = np.uint32(0xFFF)


def compare_float32(row: Row, ref: np.ndarray, cand: np.ndarray) -> float:
    """Fill in how large torch - paddle is; returns the reference's root mean square.

    The mean is summed as NumPy sums it, block by block, so that it is bit by bit what the guide's
    np.mean(np.abs(a - b)) gives.  Where a value is not finite nothing is filled in.
    """
    a, b = ref.reshape(-1), cand.reshape(-1)
    if a.dtype.itemsize < 4:  # NumPy sums float16 in float32: no blocks for these
        difference = np.abs(a - b)
        mean, largest = difference.mean(), difference.max()
        squares, off = (np.square(x, dtype=np.float64).sum() for x in (a, difference))
    else:
        buffer = np.empty(min(a.size, 2 * BLOCK), a.dtype)
        total, largest, squares, off = _sum_blocks(a, b, buffer, 0, a.size)
        mean = total / a.dtype.type(a.size)
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


def _sum_blocks(a, b, buffer, start: int, count: int):
    """Sum and maximum of |a - b|, sums of a² and (a - b)², halving as NumPy's pairwise sum does."""
    if count <= buffer.size:
        block, out = a[start : start + count], buffer[:count]
        np.subtract(block, b[start : start + count], out=out)
        np.abs(out, out=out)
        squares = float(np.dot(block, block)), float(np.dot(out, out))
        return np.add.reduce(out), np.maximum.reduce(out), *squares
    half = count // 2
    half -= half % 8
    first = _sum_blocks(a, b, buffer, start, half)
    second = _sum_blocks(a, b, buffer, start + half, count - half)
    squares = first[2] + second[2], first[3] + second[3]
    return first[0] + second[0], np.maximum(first[1], second[1]), *squares


def judge_close(row: Row, ref: np.ndarray, cand: np.ndarray, scale: float) -> Row:
    """Judge float32 values; `scale` is the reference's root mean square."""
    row.scale = scale
    row.allowed = tolerance("close") * scale
    row.measure = "max"
    if row.max_abs == 0.0 and same_bits(ref, cand):
        row.decide("IDENTICAL")
    elif row.guide_passed and row.max_abs <= row.allowed:
        row.decide("CLOSE")
    else:
        row.decide("DIVERGED")
        if row.max_abs <= row.allowed:
            row.measure, row.allowed = "mean", tolerance("guide")
        locate(row, np.abs(ref.astype(np.float64) - cand), ref, cand)
    return row


def why_no_float64(arrays: list[np.ndarray]) -> str:
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
        return (
            f"{who} float64 run holds float32 values here: weights that are looked up or handed "
            "on, or a cast of the model's that was not lifted"
        )
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


def judge_without_float64(row: Row, arrays: list[np.ndarray], why: str, single_step: bool) -> Row:
    """Judge by float32 alone, as its logs would be.

    single_step  the last array is a single-step run's, which has no float32 log beside it
    """
    ref, cand = arrays[:2]
    if single_step:
        ref, cand = (array.astype(np.float32) for array in arrays[2:])
        compare_float32(row, ref, cand)
    row = judge_close(row, ref, cand, rms(ref))
    row.add_note(f"{why}, so float32 alone decides, and nothing better than CLOSE can be said")
    return row
