"""The scores of a choice of one among many, in a few numbers for each choice.

Of each choice those are kept that are the largest in the reference's run, which all other runs keep
too (the log has their places), then the run's own largest score, and a sum that every score
changes.  A choice that rounding decides is among the largest: it is judged as from all scores
(common/verdict/choices.py).  NumPy only.
"""

import numpy as np

from twincheck.common.logs.sums import SMALLEST, weighted_sums

KEPT = 8  # of each choice
LARGEST = KEPT  # which of the numbers is the run's own largest score; the sum is behind it
_FEWEST = 8 * KEPT  # among fewer there is little to gain
_AT_A_TIME = 1 << 20  # scores


def can_be_led(scores: np.ndarray) -> bool:
    """True for scores (..., N) that are so many that few of them stand for all."""
    large = scores.dtype.kind == "f" and scores.size >= SMALLEST and scores.ndim > 1
    return large and scores.shape[-1] >= _FEWEST and bool(np.isfinite(scores).all())


def leading_places(scores: np.ndarray) -> np.ndarray:
    """Places int32 (..., KEPT) of the largest scores (..., N), the largest first.

    The first of those that are equally large is among them: an argmax takes that one.
    """
    rows = scores.reshape(-1, scores.shape[-1])
    places = np.empty((len(rows), KEPT), np.int32)
    at_a_time = max(1, _AT_A_TIME // rows.shape[1])
    for first in range(0, len(rows), at_a_time):
        some = rows[first : first + at_a_time]
        top = np.sort(np.argpartition(some, -KEPT, axis=-1)[:, -KEPT:], axis=-1)
        best = some.argmax(axis=-1)
        lacking = (top != best[:, None]).all(axis=-1)
        top[lacking, 0] = best[lacking]
        order = np.argsort(-np.take_along_axis(some, top, axis=-1), axis=-1, kind="stable")
        places[first : first + at_a_time] = np.take_along_axis(top, order, axis=-1)
    return places.reshape(*scores.shape[:-1], KEPT)


def led(scores: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The scores (..., N) at these places (..., KEPT), the largest, and the sum: (..., KEPT + 2).

    In the scores' own precision; the sum is as large as one score.
    """
    numbers = np.empty((*scores.shape[:-1], KEPT + 2), scores.dtype)
    numbers[..., :KEPT] = np.take_along_axis(scores, places, axis=-1)
    numbers[..., LARGEST] = scores.max(axis=-1)
    rows = scores.reshape(-1, scores.shape[-1])
    numbers[..., LARGEST + 1] = weighted_sums(rows).reshape(scores.shape[:-1])
    return numbers
