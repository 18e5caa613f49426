"""The tape of one process among several that share a batch; NumPy only, for both sides."""

import numpy as np

from common.pair.tape import Tape


class PartOfTape(Tape):
    """The draws of one process among several that share a batch: its rows of the batch's masks.

    A mask whose first axis is as long as the process has samples counts as one row per sample.
    """

    def __init__(self, seed: int, rank: int, count: int, rows: int):
        """`rank` of `count` processes, each with `rows` samples."""
        super().__init__(seed)
        self._rank, self._count, self._rows = rank, count, rows

    def keep_mask(self, site: str, step: int, shape: tuple[int, ...], p: float) -> np.ndarray:
        """A Tape's mask; where it has a row per sample, its rows of the whole batch's mask."""
        if not shape or shape[0] != self._rows:
            return super().keep_mask(site, step, shape, p)
        whole = super().keep_mask(site, step, (self._count * self._rows, *shape[1:]), p)
        return whole[self._rank * self._rows :][: self._rows]

    def numbers(self, kind: str, shape: tuple[int, ...], site: str, step: int) -> np.ndarray:
        """Likewise of a Tape's numbers; a permutation is of the process's own samples."""
        if kind == "permutation" or not shape or shape[0] != self._rows:
            return super().numbers(kind, shape, site, step)
        whole = super().numbers(kind, (self._count * self._rows, *shape[1:]), site, step)
        return whole[self._rank * self._rows :][: self._rows]
