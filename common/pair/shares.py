"""One process's share of a batch among several, and of the tape; NumPy only, for both sides.

A batch is cut by its rows, in their order.  What a process draws is its rows of what one process
would draw for the whole batch, so that several train as one does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twincheck.common.pair.tape import Tape

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Share:
    """The rows of a batch that one of several processes computes; shares differ by one at most."""

    rank: int
    count: int  # of processes
    rows: int  # of the whole batch

    @property
    def sizes(self) -> list[int]:
        """Return how many rows each process has."""
        ends = [self.rows * rank // self.count for rank in range(self.count + 1)]
        return [end - first for first, end in zip(ends, ends[1:], strict=False)]

    def part(self, per_row: int = 1) -> slice:
        """Return this process's part of an axis that has so many entries for each row."""
        first = self.rows * self.rank // self.count
        return slice(first * per_row, (first + self.sizes[self.rank]) * per_row)


class Axes:
    """The samples' axes of tensors, by the shapes that batches of two lengths have.

    The axis of a tensor of (B·H, T, T) has H entries for each sample: that is found too.
    """

    FEW, MORE = 2, 3  # samples of the two batches

    def __init__(self, few: Sequence[Shape] = (), more: Sequence[Shape] = ()):
        """Compare the same tensors' shapes with FEW and with MORE samples, in one order."""
        self._found = [(one, _axis(one, other)) for one, other in zip(few, more, strict=False)]

    def find(self, shape: Shape, rows: int) -> tuple[int, int] | None:
        """(axis, entries of it for each sample) of a tensor of `rows` samples; None: it has none.

        Of a shape that was not seen, a first axis as long as there are samples is theirs.
        """
        for seen, found in self._found:
            if len(seen) != len(shape):
                continue
            axis, each = found or (None, 0)
            others = [n == m for i, (n, m) in enumerate(zip(seen, shape, strict=True)) if i != axis]
            if all(others) and (found is None or shape[axis] == each * rows):
                return found
        return (0, 1) if shape and shape[0] == rows else None


def _axis(few: Shape, more: Shape) -> tuple[int, int] | None:
    if len(few) != len(more):
        return None
    grown = [axis for axis, (n, m) in enumerate(zip(few, more, strict=True)) if n != m]
    if len(grown) != 1:
        return None
    each = more[grown[0]] - few[grown[0]]
    return (grown[0], each) if few[grown[0]] == Axes.FEW * each else None


class ListingTape(Tape):
    """A tape that lists the shapes of what was drawn."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.shapes: list[Shape] = []

    def drawn(self, shape: Shape, kind: str = "") -> tuple[Shape, object]:
        """List the shape, and draw all of it."""
        self.shapes.append(tuple(shape))
        return shape, ...


class PartOfTape(Tape):
    """The draws of one process among several: its rows of what is drawn for the whole batch.

    share   of the batch that runs now; the caller sets it for each
    axes    which axis of what is drawn is the samples'
    """

    def __init__(self, seed: int, share: Share, axes: Axes | None = None):
        super().__init__(seed)
        self.share = share
        self._axes = axes or Axes()

    def drawn(self, shape: Shape, kind: str = "") -> tuple[Shape, object]:
        """The whole batch's shape, and this process's part; a permutation is of its own samples."""
        share = self.share
        found = self._axes.find(tuple(shape), share.sizes[share.rank])
        if found is None or share.count == 1 or kind == "permutation":
            return shape, ...
        axis, each = found
        whole = (*shape[:axis], share.rows * each, *shape[axis + 1 :])
        return whole, (*[slice(None)] * axis, share.part(each))


def rows_of(batch: Mapping[str, object]) -> int:
    """Return how many samples a batch of arrays or tensors has."""
    return len(next(iter(batch.values())))
