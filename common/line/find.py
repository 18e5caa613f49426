"""Find the line of a port that makes the first value which the reference has nowhere.

Only what lies on a way to a wrong result counts, and only through values without a counterpart: a
port that is written another way computes much that the reference does not, and comes back to the
same values.  Reads two traces (logs/trace.py); NumPy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from twincheck.common.line.values import CLOSE, Pool, arranged_alike, numbers_of, within
from twincheck.common.logs.trace import Call, Trace

# What a value of the port is among the reference's.
SAME, CONSTANT, ORDER, PART, NEW = "same", "constant", "order", "part", "new"
FINE = (SAME, CONSTANT)
_CREATES = ("full", "ones", "zeros", "arange", "empty", "eye", "linspace", "to_tensor", "tensor")


@dataclass
class Line:
    """Where a wrong result begins to be wrong."""

    call: Call  # the port's
    of_reference: Call | None = None  # the reference's call that is like it, where one is
    state: str = NEW
    chain: list[Call] = field(default_factory=list)  # from it to the wrong result
    reasons: tuple = ()

    @property
    def places(self) -> dict[str, str]:
        """Return file:line of each side where one is known."""
        found = {"torch": self.of_reference, "paddle": self.call}
        return {side: call.place for side, call in found.items() if call is not None}


class Finder:
    """The two traces of a case, matched."""

    def __init__(self, reference: Trace, port: Trace):
        self.reference, self.port = reference, port
        self.pool = Pool(reference.values)
        self.numbers = [numbers_of(array) for array in port.values]
        self.state = [self._state(number) for number in range(len(port.values))]
        self.maker = port.maker

    def _state(self, number: int) -> str:
        array, numbers = self.port.values[number], self.numbers[number]
        made = self.port.maker.get(number)
        call = self.port.calls[made] if made is not None else None
        if not numbers.size:
            return CONSTANT
        if numbers.size == 1 and (call is None or not call.given):
            return CONSTANT
        alike = list(self.pool.alike(numbers))
        if alike:
            found = any(arranged_alike(array, self.pool.arrays[i]) for i in alike)
            return SAME if found else ORDER
        if call is not None and call.given:
            pool = [self.numbers[i] for i in call.given if self.numbers[i].size]
            pool = np.unique(np.concatenate([np.zeros(1), *pool]))
            if numbers.size <= pool.size and within(numbers, pool, 1e-9 * numbers[-1]):
                return PART
        return NEW

    def line(self, wrong: np.ndarray) -> Line | None:
        """Return where a wrong result begins; None where that is not seen.

        wrong  as the port's run logged it
        """
        number = self._number_of(wrong)
        if number is None or self.state[number] in FINE or number not in self.maker:
            return None
        edges, todo, seen, chain = [], [number], set(), set()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            call = self.maker.get(value)
            if call is None:
                continue
            chain.add(call)
            before = [v for v in self.port.calls[call].given if self.state[v] not in FINE]
            before = [v for v in before if v in self.maker]
            todo += before
            if not before:
                edges.append((call, value))
        call, value = min(edges)
        line = Line(self.port.calls[call], state=self.state[value])
        line.chain = [self.port.calls[i] for i in sorted(chain)]
        line.of_reference = self._like(call)
        return line

    def _number_of(self, wrong: np.ndarray) -> int | None:
        """Return the number of the last value that equals an array."""
        for number in reversed(range(len(self.port.values))):
            array = self.port.values[number]
            if array.size == wrong.size and np.array_equal(
                array.reshape(-1), wrong.reshape(-1), equal_nan=array.dtype.kind in "fc"
            ):
                if number in self.maker:
                    return number
        return None

    def _like(self, number: int) -> Call | None:
        """Return the reference's call of the same kind and place among its kind."""
        kind = kind_of(self.port.calls[number])
        before = sum(kind_of(call) == kind for call in self.port.calls[:number])
        alike = [call for call in self.reference.calls if kind_of(call) == kind]
        return alike[before] if before < len(alike) else None


_ALIKE = {
    "concat": "cat",
    "multiply": "mul",
    "divide": "div",
    "truediv": "div",
    "subtract": "sub",
    "take_along_axis": "gather",
    "Linear": "linear",
    "LayerNorm": "layer_norm",
    "Embedding": "embedding",
    "Conv1D": "conv1d",
    "Conv2D": "conv2d",
}


def kind_of(call: Call) -> str:
    """Return what an operator is called on both sides."""
    name = call.name.strip("_")
    name = name[1:] if name in ("radd", "rsub", "rmul", "rtruediv", "rpow") else name
    name = name[1:] if name in ("iadd", "isub", "imul", "itruediv") else name
    return _ALIKE.get(name, name)


def called_from(calls: Sequence[Call]) -> list[str]:
    """Return the lines of some calls, each once."""
    return list(dict.fromkeys(call.place for call in calls))
