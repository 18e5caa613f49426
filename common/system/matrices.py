"""Large matrices in C order: Paddle keeps a Linear's weight the other way round.

NumPy copies a transposed matrix row by row, and so looks for each value at another place of memory:
five to ten times slower than a few columns at a time, which stay in the cache.  NumPy only.
"""

import numpy as np

_COLUMNS = 64  # at a time
_LARGE = 1 << 14  # values


def contiguous(values: np.ndarray) -> np.ndarray:
    """The values in C order; not a copy where they are so already."""
    if not _is_turned(values):
        return np.asarray(values, order="C")
    copy = np.empty(values.shape, values.dtype)
    put(values, copy)
    return copy


def put(values: np.ndarray, target: np.ndarray) -> None:
    """Write the values to an array of their shape."""
    if not _is_turned(values) or target.shape != values.shape:
        target[...] = values
        return
    for first in range(0, values.shape[1], _COLUMNS):
        target[:, first : first + _COLUMNS] = values[:, first : first + _COLUMNS]


def _is_turned(values: np.ndarray) -> bool:
    """True for a large matrix whose columns lie behind each other in memory."""
    large = values.ndim == 2 and values.size >= _LARGE
    return large and abs(values.strides[0]) < abs(values.strides[1])
