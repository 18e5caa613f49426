"""Samples that are windows of a series: they overlap, so a data file holds the series once.

    series/NAME           (T, F) rows
    windows/INPUT/NAME    [first, length, filled, value]: what an input of a sample is: `length`
                          rows of the series from its start + first, then `filled` of one value
    constants/INPUT       (F,) of every sample
    PART/starts           (N,) where each sample of a part starts

NumPy only and the same on both sides.
"""

from collections.abc import Mapping

import numpy as np

STARTS = "starts"
_SERIES, _WINDOWS, _CONSTANTS = "series/", "windows/", "constants/"


class Windows:
    """Windows of a series, as an array (N, rows, F) of which only what is asked for is made."""

    def __init__(self, series: np.ndarray, starts: np.ndarray, layout: tuple[int, int, int, float]):
        self._series, self._starts, self._layout = series, starts, layout
        _, length, filled, _ = layout
        self.shape = (len(starts), int(length + filled), *series.shape[1:])
        self.dtype = series.dtype
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index) -> np.ndarray:
        """The window of one sample, or those of a slice or array of samples."""
        if np.ndim(index) or isinstance(index, slice):
            return Windows(self._series, self._starts[index], self._layout)
        first, length, filled, value = self._layout
        begin = int(self._starts[index] + first)
        rows = self._series[begin : begin + int(length)]
        if not filled:
            return rows
        fill = np.full((int(filled), *self._series.shape[1:]), value, self.dtype)
        return np.concatenate([rows, fill])

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        values = np.empty(self.shape, self.dtype)
        for i in range(len(self)):
            values[i] = self[i]
        return values if dtype is None else values.astype(dtype)


def part_of(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray | Windows]:
    """Input -> its array (N, ...) of a part of a data file, whichever way the file holds them."""
    if not any(name.startswith(_WINDOWS) for name in arrays):  # it holds no series
        prefix = f"{part}/"
        return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
    starts = arrays.get(f"{part}/{STARTS}")
    if starts is None:
        return {}
    found: dict[str, np.ndarray | Windows] = {}
    for key, values in arrays.items():
        if key.startswith(_WINDOWS):
            name, _, series = key[len(_WINDOWS) :].partition("/")
            found[name] = Windows(arrays[_SERIES + series], starts, tuple(values.tolist()))
        if key.startswith(_CONSTANTS):
            shape = (len(starts), *values.shape)
            found[key[len(_CONSTANTS) :]] = np.broadcast_to(values, shape)
    return found
