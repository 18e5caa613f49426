"""Values known by their numbers, whatever name, shape or layout they have.

NumPy only.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

DIGITS = 9  # to which the numbers of a value are told apart, of its largest
CLOSE = 1e-7  # how far the same number of two float64 runs may lie apart, of the largest
MOST_AXES = 6


def numbers_of(array: np.ndarray) -> np.ndarray:
    """Return the numbers of a value, sign aside, each once, sorted."""
    flat = np.abs(array.reshape(-1).astype(np.float64))
    flat = flat[np.isfinite(flat)]
    largest = flat.max(initial=0.0)
    if not largest:
        return np.zeros(min(flat.size, 1))
    return np.unique(np.round(flat / largest, DIGITS)) * largest


def same_numbers(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two results of `numbers_of` are the same but for rounding."""
    if not one.size or not other.size or abs(one.size - other.size) > 0.02 * one.size:
        return False
    most = CLOSE * max(one[-1], other[-1])
    if one.size == other.size and np.abs(one - other).max() <= most:
        return True
    return within(one, other, most) and within(other, one, most)


def within(some: np.ndarray, pool: np.ndarray, most: float) -> bool:
    """Return whether each of some numbers is one of a sorted pool's, up to `most`."""
    if not pool.size:
        return not some.size
    at = np.searchsorted(pool, some).clip(1, max(pool.size - 1, 1))
    below = np.abs(pool[at - 1] - some)
    above = np.abs(pool[np.minimum(at, pool.size - 1)] - some)
    return bool((np.minimum(below, above) <= most).all())


def bare(array: np.ndarray) -> np.ndarray:
    """Return a value without the axes along which it repeats itself."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] > 1 and np.array_equal(
            np.broadcast_to(first, array.shape), array, equal_nan=array.dtype.kind in "fc"
        ):
            array = first
    return array.squeeze()


def arranged_alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two values have the same numbers in the same order.

    The place of an axis, a reshape and a sign make no difference, nor axes that repeat.
    """
    one, other = bare(one), bare(other)
    if one.size != other.size:
        return False
    if _close(one, other):
        return True
    for turned, still in ((one, other), (other, one)):
        if 2 <= turned.ndim <= MOST_AXES:
            turns = permutations(range(turned.ndim))
            if any(_close(turned.transpose(turn), still) for turn in turns):
                return True
    return False


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    one, other = (a.reshape(-1).astype(np.float64) for a in (one, other))
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    one, other = one[finite], other[finite]
    most = CLOSE * max(np.abs(one).max(initial=0.0), np.abs(other).max(initial=0.0))
    return bool((np.abs(one - other) <= most).all() or (np.abs(one + other) <= most).all())


class Pool:
    """Values to look others up among, by their numbers."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = arrays
        numbers = [numbers_of(array) for array in arrays]
        order = sorted(
            (i for i in range(len(arrays)) if numbers[i].size), key=lambda i: numbers[i][-1]
        )
        self._order = order
        self._numbers = [numbers[i] for i in order]
        self._largest = [found[-1] for found in self._numbers]

    def alike(self, numbers: np.ndarray) -> Iterable[int]:
        """Give the places of those arrays that have these numbers."""
        if not numbers.size:
            return
        largest = numbers[-1]
        at = bisect_left(self._largest, largest * (1 - CLOSE))
        while at < len(self._largest) and self._largest[at] <= largest * (1 + CLOSE):
            if same_numbers(numbers, self._numbers[at]):
                yield self._order[at]
            at += 1
