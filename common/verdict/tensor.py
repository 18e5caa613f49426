"""Judge one tensor: what can be compared at all of it, and then by the rule.  NumPy only."""

from copy import copy

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
from common.verdict.row import AGREEING, Row
from common.verdict.rule import judge_floats

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
            judged = judge_floats(copy(row), arrays, context)
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
