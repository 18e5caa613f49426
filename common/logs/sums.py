"""A large tensor in about a thousand numbers: a sample of its values, and sums that each changes.

Every value is in one weighted sum of neighbours, with a weight of its own that is not small: where
any value differs, so does a sum.  Both parts are linear, so that the rule for a tensor (its gap
beside the noise of float32) holds for these numbers as it does for the values: sums are scaled so
that rounding errors, which are independent of each other, are as large in them as in one value.
What one wrong value adds to a sum of n is its error over sqrt(n).

Along the first axis, where that is short, rows are told apart: a batch has samples.  NumPy only.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from twincheck.common.system.matrices import contiguous

SMALLEST = 1 << 14  # values: a tensor with fewer is kept whole
_SAMPLE, _SUMS = 192, 768  # of a tensor; of its rows, where those are told apart, a part each
_MOST_ROWS = 256
_BLOCK = 1 << 15  # values that are worked on at a time: they stay in the cache
_SEED = 20261122


def can_be_summed(array: np.ndarray) -> bool:
    """True for a tensor of floats that is large enough to gain by it."""
    return array.dtype.kind == "f" and array.size >= SMALLEST


def summed(array: np.ndarray) -> np.ndarray:
    """The sample and then the sums of each row, float64 (rows, numbers) or (numbers,).

    The same bits for arrays of the same bits.  Where a value is NaN or infinite so is a sum: such a
    tensor is better kept whole.
    """
    rows, count = _rows(array.shape)
    places, length = _plan(rows, count)
    weights = _weights(length)
    values = contiguous(array).reshape(rows, count)
    numbers = np.empty((rows, places.shape[1] + -(-count // length)))
    numbers[:, : places.shape[1]] = np.take_along_axis(values, places, axis=1)
    sums = numbers[:, places.shape[1] :]
    with np.errstate(invalid="ignore"):
        if count % length == 0:
            sums[:] = _add_up(values.reshape(-1, length), weights).reshape(sums.shape)
        else:
            whole = count // length * length
            for row, into in zip(values, sums, strict=True):
                into[:-1] = _add_up(row[:whole].reshape(-1, length), weights)
                rest = row[whole:].astype(np.float64, copy=False)
                into[-1] = np.einsum("i,i", rest, weights[: rest.size])
    return numbers.reshape(-1) if rows == 1 else numbers


def weighted_sums(rows: np.ndarray) -> np.ndarray:
    """One sum (rows,) of each row (rows, N) in which every value counts, float64."""
    return _add_up(rows, _weights(rows.shape[1]))


def shape_of_sums(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of what `summed` makes of a tensor of this shape."""
    rows, count = _rows(shape)
    places, length = _plan(rows, count)
    numbers = places.shape[1] + -(-count // length)
    return (numbers,) if rows == 1 else (rows, numbers)


def sample_of(shape: Sequence[int]) -> int:
    """Return how many numbers along the last axis, the first ones, are values of the tensor."""
    return _plan(*_rows(shape))[0].shape[1]


def _add_up(parts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted sum of each part, (parts, length), in float64, a block at a time."""
    sums = np.empty(len(parts))
    at_a_time = max(1, _BLOCK // weights.size)
    for first in range(0, len(parts), at_a_time):
        block = parts[first : first + at_a_time].astype(np.float64, copy=False)
        # Not np.dot: its threads would fight with the framework's, which wait for work meanwhile.
        np.einsum("ij,j->i", block, weights, out=sums[first : first + at_a_time])
    return sums


def place_of(shape: Sequence[int], index: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Locate the number at `index` of the sums of a tensor of this shape.

    Returns the place of its first value, and how many values it is made of: 1 for the sample.
    """
    rows, count = _rows(shape)
    places, length = _plan(rows, count)
    row = index[0] if rows > 1 else 0
    number = index[-1] - places.shape[1]
    first = places[row, index[-1]] if number < 0 else number * length
    values = 1 if number < 0 else min(length, count - first)
    return tuple(int(i) for i in np.unravel_index(row * count + first, shape)), values


def _rows(shape: Sequence[int]) -> tuple[int, int]:
    """Return how many rows of a tensor are told apart, and how many values each has."""
    size = math.prod(shape)
    rows = shape[0] if len(shape) > 1 and shape[0] <= _MOST_ROWS else 1
    return rows, size // rows


@lru_cache(maxsize=64)
def _plan(rows: int, count: int) -> tuple[np.ndarray, int]:
    """Places (rows, n) of the sample, and how many neighbours a sum is of."""
    generator = np.random.Generator(np.random.Philox(key=[_SEED, count]))
    places = generator.integers(0, count, (rows, -(-_SAMPLE // rows)))
    places.sort(axis=1)
    least = -(-count // -(-_SUMS // rows))
    # So many neighbours a sum that none is left over, where that is not far.
    even = (n for n in range(least, min(4 * least, count) + 1) if count % n == 0)
    return places, next(even, least)


@lru_cache(maxsize=64)
def _weights(length: int) -> np.ndarray:
    """Weights between 0.5 and 1.5 of either sign, of norm 1."""
    generator = np.random.Generator(np.random.Philox(key=[_SEED + 1, length]))
    weights = generator.uniform(0.5, 1.5, length) * (1 - 2 * generator.integers(0, 2, length))
    return weights / np.sqrt(np.square(weights).sum())
