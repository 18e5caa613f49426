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
_PARTS = (2, 3, 4)  # into which a value is cut that was put together of others


def flat_of(array: np.ndarray) -> np.ndarray:
    """Return a value's numbers in a row, in float64."""
    return np.asarray(array).reshape(-1).astype(np.float64)


def numbers_of(array: np.ndarray) -> np.ndarray:
    """Return the numbers of a value, sign aside, each once, sorted."""
    flat = np.abs(flat_of(array))
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
    at = np.searchsorted(pool, some).clip(0, pool.size - 1)
    below = np.abs(pool[np.maximum(at - 1, 0)] - some)
    return bool((np.minimum(below, np.abs(pool[at] - some)) <= most).all())


def bare(array: np.ndarray) -> np.ndarray:
    """Return a value without the axes along which it repeats itself."""
    array = np.asarray(array)
    for axis in range(array.ndim):
        if array.shape[axis] > 1:
            first = array.take([0], axis)
            if np.array_equal(
                np.broadcast_to(first, array.shape), array, equal_nan=array.dtype.kind in "fc"
            ):
                array = first
    return array.squeeze()


def is_mask(array: np.ndarray) -> bool:
    """Return whether a value is of two numbers, or of truth values: it says where, not what."""
    flat = flat_of(array)
    if array.dtype.kind == "b":
        return True
    if flat.size < 2 or np.isnan(flat).any():
        return False
    low, high = flat.min(), flat.max()
    return bool(low != high and ((flat == low) | (flat == high)).all())


def pattern(mask: np.ndarray) -> np.ndarray:
    """Return where a mask has its larger number."""
    return mask if mask.dtype.kind == "b" else mask == mask.max()


def arranged_alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two values have the same numbers in the same order.

    The place of an axis, a reshape and a sign make no difference, nor axes that repeat; of masks,
    which number says what.
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
    if one.dtype.kind == "b" and other.dtype.kind == "b":
        equal = one.reshape(-1) == other.reshape(-1)
        return bool(equal.all() or not equal.any())
    one, other = flat_of(one), flat_of(other)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    one, other = one[finite], other[finite]
    most = CLOSE * max(np.abs(one).max(initial=0.0), np.abs(other).max(initial=0.0))
    return bool((np.abs(np.abs(one) - np.abs(other)) <= most).all())


class Pool:
    """Values to look others up among, by their numbers."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = arrays
        numbers = [numbers_of(array) for array in arrays]
        some = (i for i in range(len(arrays)) if numbers[i].size)
        self._order = sorted(some, key=lambda i: numbers[i][-1])
        self._numbers = [numbers[i] for i in self._order]
        self._largest = [float(found[-1]) for found in self._numbers]
        self.masks = [i for i, array in enumerate(arrays) if array.size > 1 and is_mask(array)]
        self._patterns = {i: pattern(arrays[i]) for i in self.masks}

    def of_numbers(self, numbers: np.ndarray) -> Iterable[int]:
        """Give the places of those arrays that have these numbers."""
        if not numbers.size:
            return
        largest = float(numbers[-1])
        at, end = bisect_left(self._largest, largest * (1 - CLOSE)), largest / (1 - CLOSE)
        while at < len(self._largest) and self._largest[at] <= end:
            if same_numbers(numbers, self._numbers[at]):
                yield self._order[at]
            at += 1

    def counterparts(self, array: np.ndarray) -> list[int]:
        """Return the places of those arrays that a value is, in another layout maybe."""
        if is_mask(array):
            own = pattern(array)
            return [i for i in self.masks if arranged_alike(own, self._patterns[i])]
        alike = self.of_numbers(numbers_of(array))
        return [i for i in alike if arranged_alike(array, self.arrays[i])]

    def has_parts(self, array: np.ndarray) -> bool:
        """Return whether a value is put together of some of these, or of halves of theirs."""
        for axis in range(array.ndim):
            for parts in _PARTS:
                if array.shape[axis] % parts or array.shape[axis] < parts or array.size == parts:
                    continue
                cut = np.split(array, parts, axis)
                if all(self.counterparts(part) for part in cut):
                    return True
        return False
