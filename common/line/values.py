"""Values known by their numbers, whatever name, shape or layout they have.

NumPy only.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from twincheck.common.logs.match import single

MOST_AXES = 6
_PARTS = (2, 3, 4)  # into which a value is cut that was put together of others
_MOST_SLICES = 16  # of a value that may have been computed one by one
_MOST_CUT = 1 << 18  # numbers in a value that is cut, or looked for in others
_FEW = 8  # whole numbers, of which a value says little
_MOST_TIMES = 64  # as large may be what a value is a part of


def flat_of(array: np.ndarray) -> np.ndarray:
    """Return a value's numbers in a row, in float64."""
    return np.asarray(array).reshape(-1).astype(np.float64)


def slack(numbers: np.ndarray, close: float) -> np.ndarray:
    """Return how far each of some numbers, without their signs, may lie from the same one.

    By its own size, or by that of the smaller ones: a mask's -1e9 is no measure for scores.
    """
    some = numbers[numbers > 0]
    tenth = some.size // 10
    usual = np.partition(some, tenth)[tenth] if some.size else 0.0
    return close * np.maximum(numbers, usual)


def numbers_of(array: np.ndarray, close: float) -> np.ndarray:
    """Return the numbers of a value, sign aside, each once, sorted."""
    flat = np.abs(flat_of(array))
    flat = np.sort(flat[np.isfinite(flat)])
    if flat.size < 2:
        return flat
    return flat[np.append(True, np.diff(flat) > slack(flat, close)[1:] / 4)]


def same_numbers(one: np.ndarray, other: np.ndarray, close: float) -> bool:
    """Return whether two results of `numbers_of` are the same but for rounding."""
    if not one.size or not other.size or abs(one.size - other.size) > 0.02 * one.size:
        return False
    if one.size == other.size and (np.abs(one - other) <= slack(one, close)).all():
        return True
    return within(one, other, close) and within(other, one, close)


def within(some: np.ndarray, pool: np.ndarray, close: float) -> bool:
    """Return whether each of some numbers is one of a sorted pool's."""
    if not pool.size:
        return not some.size
    at = np.searchsorted(pool, some).clip(0, pool.size - 1)
    below = np.abs(pool[np.maximum(at - 1, 0)] - some)
    return bool((np.minimum(below, np.abs(pool[at] - some)) <= slack(some, close)).all())


def bare(array: np.ndarray) -> np.ndarray:
    """Return a value without the axes along which it repeats itself."""
    return array[single(array)]


def is_mask(array: np.ndarray) -> bool:
    """Return whether a value is of two numbers, or of truth values: it says where, not what."""
    flat = flat_of(array)
    if array.dtype.kind == "b":
        return True
    if flat.size < 4 or np.isnan(flat).any():
        return False
    low, high = flat.min(), flat.max()
    return bool(low != high and ((flat == low) | (flat == high)).all())


def pattern(mask: np.ndarray) -> np.ndarray:
    """Return where a mask has its larger number."""
    return mask if mask.dtype.kind == "b" else mask == mask.max()


def _outline(mask: np.ndarray) -> tuple[tuple[int, int], np.ndarray]:
    """Return what all masks of one pattern have alike, whichever number says what; the pattern."""
    own = bare(pattern(mask))
    count = int(own.sum())
    return (own.size, min(count, own.size - count)), own


def lengths(array: np.ndarray) -> list[int]:
    """Return the lengths of a value's axes, sorted, without those along which it repeats itself."""
    return sorted(length for length in bare(array).shape if length > 1)


def of_axes(one: np.ndarray, other: np.ndarray, close: float) -> bool:
    """Return whether two values are the same but for the order of their axes, and for signs."""
    one, other = (np.squeeze(bare(value)) for value in (one, other))
    if one.ndim > MOST_AXES:
        return one.shape == other.shape and _close(one, other, close)
    turned = (one.transpose(turn) for turn in permutations(range(one.ndim)))
    return any(_close(t, other, close) for t in turned if t.shape == other.shape)


def arranged_alike(one: np.ndarray, other: np.ndarray, close: float) -> bool:
    """Return whether two values have the same numbers in the same order.

    The place of an axis, a reshape and a sign make no difference, nor axes that repeat; of masks,
    which number says what.
    """
    one, other = bare(one), bare(other)
    if one.size != other.size:
        return False
    if _close(one, other, close):
        return True
    for turned, still in ((one, other), (other, one)):
        if 2 <= turned.ndim <= MOST_AXES:
            turns = permutations(range(turned.ndim))
            if any(_close(turned.transpose(turn), still, close) for turn in turns):
                return True
    return False


def _close(one: np.ndarray, other: np.ndarray, close: float) -> bool:
    if one.dtype.kind == "b" and other.dtype.kind == "b":
        equal = one.reshape(-1) == other.reshape(-1)
        return bool(equal.all() or not equal.any())
    one, other = flat_of(one), flat_of(other)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    one, other = one[finite], other[finite]
    one, other = np.abs(one), np.abs(other)
    return bool((np.abs(one - other) <= slack(one, close)).all())


class Pool:
    """Values to look others up among, by their numbers.

    close  how far the same number may lie apart, of the largest of its value
    """

    def __init__(self, arrays: Sequence[np.ndarray], close: float):
        self.arrays, self.close = arrays, close
        self.numbers = [numbers_of(array, close) for array in arrays]
        some = (i for i, found in enumerate(self.numbers) if found.size)
        self._order = sorted(some, key=lambda i: self.numbers[i][-1])
        self._largest = [float(self.numbers[i][-1]) for i in self._order]
        self._masks: dict[tuple[int, int], list[tuple[int, np.ndarray]]] = {}
        for i, array in enumerate(arrays):
            if array.size > 1 and is_mask(array):
                key, own = _outline(array)
                self._masks.setdefault(key, []).append((i, own))

    def counterparts(self, array: np.ndarray, numbers: np.ndarray | None = None) -> list[int]:
        """Return the places of those arrays that a value is, in another layout maybe.

        numbers  its own, where they are known
        """
        if is_mask(array):
            key, own = _outline(array)
            some = self._masks.get(key, ())
            return [i for i, other in some if arranged_alike(own, other, self.close)]
        alike = self._of_numbers(numbers_of(array, self.close) if numbers is None else numbers)
        return [i for i in alike if arranged_alike(array, self.arrays[i], self.close)]

    def _of_numbers(self, numbers: np.ndarray) -> Iterable[int]:
        """Give the places of those arrays that have these numbers."""
        largest = float(numbers[-1]) if numbers.size else np.inf
        start = bisect_left(self._largest, largest * (1 - self.close))
        for i in self._order[start : bisect_right(self._largest, largest / (1 - self.close))]:
            if same_numbers(numbers, self.numbers[i], self.close):
                yield i

    def has_parts(self, array: np.ndarray) -> bool:
        """Return whether a value is put together of some of these, or of parts of theirs."""
        for axis in range(array.ndim if array.size <= _MOST_CUT else 0):
            length = array.shape[axis]
            for parts in {*_PARTS, length if length <= _MOST_SLICES else 1} - {1}:
                if length % parts or array.size // parts < 4:
                    continue
                cut = np.split(array, parts, axis)
                if all(self.counterparts(part) or self.holds(part) for part in cut):
                    return True
        return self.holds(array)

    def holds(self, array: np.ndarray) -> bool:
        """Return whether a value is a part of one of these along one of its axes."""
        own = bare(array)
        if not 4 <= own.size <= _MOST_CUT or is_mask(array):
            return False
        numbers = numbers_of(array, self.close)
        if array.dtype.kind in "iu" and numbers.size < _FEW:  # they are anywhere
            return False
        for i in self._order if numbers.size else ():
            there, whole = self.numbers[i], self.arrays[i]
            if there[-1] < numbers[-1] * (1 - self.close) or whole.size <= array.size:
                continue
            if whole.size > _MOST_TIMES * array.size or whole.size % own.size:
                continue
            if not within(numbers, there, self.close):
                continue
            for axis in range(whole.ndim):
                parts = whole.size // own.size
                if whole.shape[axis] % parts == 0:
                    cut = np.split(whole, parts, axis)
                    if any(arranged_alike(own, part, self.close) for part in cut):
                        return True
        return False
