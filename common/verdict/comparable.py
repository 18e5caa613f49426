"""What can be compared at all: shapes, dtypes, NaN, infinities; and integers.

NumPy only.
"""

import numpy as np

from common.verdict.row import Row
from common.verdict.tolerances import tolerance


def mismatch(arrays: list[np.ndarray]) -> str:
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


def of_another_shape(row: Row) -> bool:
    """True for the row of two tensors whose shapes differ."""
    return row.verdict == "INVALID" and row.note.startswith("shape ")


def not_finite(arrays: list[np.ndarray]) -> str:
    """How many values are NaN or infinite, on which side, and where the first is."""
    names = ("torch float32", "paddle float32", "torch float64", "paddle float64")
    sentences = []
    for name, array in zip(names, arrays, strict=False):
        finite = np.isfinite(array)
        if not finite.all():
            nans = int(np.count_nonzero(np.isnan(array)))
            infinities = int(array.size - np.count_nonzero(finite)) - nans
            first = tuple(int(i) for i in np.unravel_index(np.argmin(finite), array.shape))
            sentences.append(f"{name}: {nans} NaN, {infinities} infinite, first at {first}")
    return "; ".join(sentences)


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
    row.decide("IDENTICAL").beyond = 0
    for name, ref, cand in zip(("", "float64: "), arrays[::2], arrays[1::2], strict=False):
        different = ref != cand
        if different.any():
            row.decide("DIVERGED").beyond = int(np.count_nonzero(different))
            row.note = f"{name}{row.beyond} of {row.size} differ; integers must be equal"
            index = np.unravel_index(np.argmax(different), different.shape)
            row.worst_index = tuple(int(i) for i in index)
            row.worst_ref, row.worst_cand = float(ref[index]), float(cand[index])
            break
    return row
