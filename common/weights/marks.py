"""Marks in place of weights, by which what has been made of them says where each element came from.

A mark is a float32 that no other element has.  What is made of the weights, by case.py's `convert`
or a library's own loader, is made twice, with other marks, so that no value which was there before,
and none that was computed or rounded, can pass for a mark.  NumPy only.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import Owner

State = Mapping[str, np.ndarray]
PASSES = 2
NOWHERE = -1  # in place of an element's number: none of them

_MOST = 120 << 23  # float32 that are neither huge nor tiny: 120 powers of two
_LEAST = 8 << 23  # marks of small models are spread over eight, so that rounding shows


class Marks:
    """A number for each element of a torch state, and the marks that stand for the numbers.

    owners   key -> Owner of the torch model; tied tensors have the marks of their first key
    state    its weights: what is no float keeps its values, for it cannot be told apart
    """

    def __init__(self, owners: Mapping[str, Owner], state: State):
        self._state = state
        self.starts: dict[str, int] = {}
        total = 0
        for key, owner in owners.items():
            if owner.same_as == key and state[key].dtype.kind == "f":
                self.starts[key] = total
                total += state[key].size
        self.total = total
        self._count = total + total % 2  # even: no mark is the same in both passes
        if self._count > _MOST:
            raise UserError(Kind.LOADER_BEYOND_MARKS(count=total, marks=_MOST))
        self._owners = owners
        span = max(_LEAST, -(-self._count >> 23) << 23)
        self._step = (span // max(1, self._count) - 1) | 1
        self._base = (127 - (span >> 24)) << 23

    def numbers(self) -> dict[str, np.ndarray]:
        """Torch key -> the number of each of its elements, of all that are marked."""
        return numbers_of(self._owners, self.starts)

    def state(self, which: int) -> dict[str, np.ndarray]:
        """The torch state with marks in place of its floats; `which` of the passes."""
        numbers = self.numbers()
        return {
            key: self._mark(numbers[key], which) if key in numbers else values
            for key, values in self._state.items()
        }

    def _mark(self, numbers: np.ndarray, which: int) -> np.ndarray:
        turned = self._count - 1 - numbers if which else numbers
        return (self._base + turned * self._step).astype(np.uint32).view(np.float32)

    def sources(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """The number of the element that each value is; found are the same values of all passes."""
        read = []
        for which, values in enumerate(found):
            bits = float32(values).view(np.uint32).astype(np.int64) - self._base
            number, rest = np.divmod(bits, self._step)
            turned = self._count - 1 - number if which else number
            read.append(np.where((rest == 0) & (turned >= 0) & (turned < self.total), turned, -1))
        same = np.all([numbers == read[0] for numbers in read], axis=0)
        return np.where(same, read[0], NOWHERE)


def numbers_of(owners: Mapping[str, Owner], starts: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Torch key -> the numbers of its elements; `starts` has the first of each that is marked."""
    return {
        key: (starts[owner.same_as] + np.arange(math.prod(owner.shape))).reshape(owner.shape)
        for key, owner in owners.items()
        if owner.same_as in starts
    }


def float32(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32)
