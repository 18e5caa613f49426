"""Find the line of a port that makes the first value which the reference has nowhere.

Only what lies on a way to a wrong result counts, and only through values without a counterpart: a
port that is written another way computes much that the reference does not, and comes back to the
same values.  Among those that are left the one is it that stands where the reference has something
of the same kind which the port has nowhere.  Reads two traces (logs/trace.py); NumPy only.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twincheck.common.line.relations import is_constant, relation
from twincheck.common.line.values import Pool, bare
from twincheck.common.logs.trace import Call, Trace
from twincheck.common.system.reasons import Kind

# What a value of the port is among the reference's.
SAME, CONSTANT, NEW = "same", "constant", "new"
_ALIKE = {
    "concat": "cat",
    "multiply": "mul",
    "divide": "div",
    "truediv": "div",
    "subtract": "sub",
    "take_along_axis": "gather",
    "clip": "clamp",
    **{"equal": "eq", "not_equal": "ne", "less_than": "lt", "less_equal": "le"},
    **{"greater_than": "gt", "greater_equal": "ge"},
}
# They put numbers through unchanged, or by one other number: alone they are no fault.
_PLAIN = frozenset(
    "add assign astype broadcast_to cast cat chunk clone contiguous detach div double expand "
    "flatten float getitem moveaxis mul neg permute repeat repeat_interleave reshape scale "
    "split squeeze stack sub swapaxes t tile to transpose unbind unsqueeze view".split()
)
_JOINS = ("cat", "stack")
_OF_TWO = ("add", "sub", "mul", "div")
_CASTS = ("astype", "cast", "to", "double", "float", "contiguous", "clone", "assign", "detach")
_MOVES = frozenset(
    (*_CASTS, *"reshape view unsqueeze squeeze expand broadcast_to flatten unflatten".split())
)
_MOST_RELATED = 60  # of the reference's values that one is compared with


@dataclass
class Suspect:
    """A call of the port that may be where a result begins to be wrong."""

    call: Call
    of_reference: Call | None = None  # what makes the related value there
    how: str = ""  # how it is related
    is_known: bool = False  # the reference has this very value, but elsewhere


class Finder:
    """The two traces of a case, matched.

    close  how far the same number may lie apart on both sides, of the largest of its value
    """

    def __init__(self, reference: Trace, port: Trace, close: float):
        self.reference, self.port = reference, port
        self.pool, self._own = Pool(reference.values, close), Pool(port.values, close)
        self._states: dict[int, str] = {}
        self._partners: dict[int, list[int]] = {}
        self._made_before = self._makers_by_content()

    # ---- what a value is ------------------------------------------------------------------------

    def partners(self, value: int) -> list[int]:
        """Return the reference's values that one of the port's is."""
        if value not in self._partners:
            numbers = self._own.numbers[value]
            self._partners[value] = self.pool.counterparts(self.port.values[value], numbers)
        return self._partners[value]

    def is_fine(self, value: int) -> bool:
        """Return whether a value of the port is one of the reference's, or of one number alone."""
        return self._state(value) != NEW

    def _state(self, value: int) -> str:
        if value not in self._states:
            array, call = self.port.values[value], self.maker(value)
            made_up = call is None or not call.given
            if not self._own.numbers[value].size or made_up and is_constant(array):
                self._states[value] = CONSTANT
            else:
                known = self.partners(value) or self.pool.has_parts(array)
                self._states[value] = SAME if known else NEW
        return self._states[value]

    def maker(self, value: int) -> Call | None:
        """Return the call that made a value, maybe as another tensor of the same numbers."""
        number = self.port.maker.get(value, self._made_before.get(value))
        return None if number is None else self.port.calls[number]

    def _makers_by_content(self) -> dict[int, int]:
        """A value that nobody is seen to make -> the call that made those numbers before."""
        found: dict[int, int] = {}
        known: dict[bytes, int] = {}
        for value, array in enumerate(self.port.values):
            content = np.ascontiguousarray(array).tobytes() if array.size > 1 else b""
            made = self.port.maker.get(value)
            if made is not None:
                known[content] = made
            elif content in known:
                found[value] = known[content]
        return found

    @cached_property
    def _lacking(self) -> dict[int, list[int]]:
        """Size -> the reference's values that the port has nowhere, in their order."""
        found: dict[int, list[int]] = {}
        for value in (value for call in self.reference.calls for value in call.made):
            array = self.reference.values[value]
            if array.size > 1 and not is_constant(array):
                if not self._own.counterparts(array, self.pool.numbers[value]):
                    found.setdefault(bare(array).size, []).append(value)
        return found

    # ---- where it begins ------------------------------------------------------------------------

    def maker_of_right(self, right: np.ndarray) -> Call | None:
        """Return the reference's call that made a result, as its run logged it; None for none."""
        of = self.reference
        made = (of.maker[value] for value in _values_of(of, right) if value in of.maker)
        return next((of.calls[number] for number in made), None)

    def suspect(self, wrong: np.ndarray, right: np.ndarray) -> Suspect | None:
        """Return where a wrong result begins to be wrong; None where that is not seen.

        wrong, right  as the port's run and the reference's logged it
        """
        result = next(_values_of(self.port, wrong), None)
        if result not in self.port.maker:  # it is what a probe has put there, and nothing was made
            return None
        if wrong.shape == right.shape and np.allclose(wrong, right, 1e-9, 1e-12):
            return None
        if self.is_fine(result):
            return self._of_known(result, wrong, right)
        plain: set[int] = set()
        first, at_edge, behind = None, None, None
        for value, before in self._chain(result).items():
            is_edge = plain.issuperset(before)
            suspect = self._suspect(value, is_edge)
            if suspect.of_reference is not None:
                return suspect
            first = first or suspect
            if is_edge and self._is_plain(value):
                plain.add(value)
            elif is_edge:
                at_edge = at_edge or suspect
            else:
                behind = behind or suspect
        return at_edge or behind or first

    def _of_known(self, result: int, wrong: np.ndarray, right: np.ndarray) -> Suspect | None:
        """Return the suspect of a result that the reference has elsewhere, or that is a mask."""
        own = self._back(self.maker(result), _CASTS)
        call = self._back(own, _MOVES)
        if call is None or call is not own and kind_of(call) not in _JOINS:
            return None
        how = relation(wrong, right) if wrong.size == right.size else ""
        return Suspect(call, how=how, is_known=True)

    def _back(self, call: Call | None, kinds: Collection[str]) -> Call | None:
        """Return the last call of other kinds before one, past those of a single value."""
        while call is not None and len(call.given) == 1 and kind_of(call) in kinds:
            call = self.maker(call.given[0])
        return call

    def _chain(self, result: int) -> dict[int, list[int]]:
        """A value on the way to a result -> those without a counterpart that it was made of.

        In the order in which they were made.
        """
        found: dict[int, list[int]] = {}
        todo = [result]
        while todo:
            value = todo.pop()
            call = self.maker(value)
            if value not in found and call is not None:
                before = (v for v in call.given if not self.is_fine(v))
                found[value] = [v for v in before if self.maker(v) is not None]
                todo += found[value]
        order = {id(call): i for i, call in enumerate(self.port.calls)}
        return dict(sorted(found.items(), key=lambda item: order[id(self.maker(item[0]))]))

    def _is_plain(self, value: int) -> bool:
        """Return whether a step may well be taken in a right port, and elsewhere otherwise."""
        call = self.maker(value)
        if not call.given:
            return True
        by_one = kind_of(call) not in _OF_TWO or len(call.given) == 1
        return kind_of(call) in _PLAIN and by_one and not self.strange_numbers(call)

    def is_right_elsewhere(self, call: Call) -> bool:
        """Return whether a function's line makes right values where it is called from elsewhere."""
        if len(call.frames) < 2 or call.frames[0].function in ("forward", "__init__", "__call__"):
            return False
        others = (
            one
            for one in self.port.calls
            if len(one.frames) > 1
            and one.frames[0].place == call.place
            and one.frames[1].place != call.frames[1].place
        )
        made = [value for one in others for value in one.made]
        return bool(made) and all(map(self.is_fine, made))

    def strange_numbers(self, call: Call, like: Call | None = None) -> list[tuple]:
        """Return (a plain number of a call, one of the reference's) where that has it not.

        like  the reference's call to compare with; by default all of the same operator
        """
        kind = kind_of(call)
        others = [like] if like is not None else self.reference.calls
        theirs = [n for other in others if kind_of(other) == kind for n in numbers_in(other)]
        return [(n, theirs[0]) for n in numbers_in(call) if theirs and n not in theirs]

    def _suspect(self, value: int, at_edge: bool) -> Suspect:
        call, array = self.maker(value), self.port.values[value]
        lacking = self._lacking.get(bare(array).size, [])
        like = self._like(call)
        if like is not None and any(map(self._is_lacking, like.made)):
            hows = (relation(array, self.reference.values[v]) for v in like.made)
            return Suspect(call, like, next(filter(None, hows), ""))
        for other in lacking[:_MOST_RELATED]:
            how = relation(array, self.reference.values[other])
            if how and (how.kind is not Kind.LINE_NEAR or at_edge):
                return Suspect(call, self.reference.calls[self.reference.maker[other]], how)
        return self._given_another(call, lacking) if at_edge else Suspect(call)

    def _is_lacking(self, value: int) -> bool:
        return value in self._lacking.get(bare(self.reference.values[value]).size, ())

    def _given_another(self, call: Call, lacking: Sequence[int]) -> Suspect:
        """Return what made the value that the reference's same operator is given another for.

        lacking  the reference's values of the size of what the call makes
        """
        like = [self.reference.calls[self.reference.maker[v]] for v in lacking]
        like = [one for one in like if kind_of(one) == kind_of(call)]
        mine = set().union(*map(self.partners, call.given))
        if len(call.given) > 1:
            like = [one for one in like if not mine.isdisjoint(one.given)]
        if len({one.place for one in like}) != 1:
            return Suspect(call)
        theirs = set(like[0].given)
        if any(self._own.counterparts(self.reference.values[v]) for v in theirs - mine):
            return Suspect(call, like[0])  # which has what it should be given
        for one in call.given:
            if self._state(one) == SAME and theirs.isdisjoint(self.partners(one)):
                maker = self._back(self.maker(one), _PLAIN)
                if maker is not None:
                    return Suspect(maker, like[0], is_known=True)
        return Suspect(call, like[0])

    def _like(self, call: Call) -> Call | None:
        """Return the reference's call of the same operator on the same values."""
        if not all(map(self.is_fine, call.given)):
            return None
        given = [set(self.partners(v)) for v in call.given if self._state(v) == SAME]
        alike = (one for one in self.reference.calls if kind_of(one) == kind_of(call))
        fed = (one for one in alike if given and not any(map(set(one.given).isdisjoint, given)))
        return next(fed, None)


def _values_of(trace: Trace, wanted: np.ndarray) -> Iterator[int]:
    """Give the values of a trace that equal an array, the last first."""
    for value, array in reversed(list(enumerate(trace.values))):
        nan_too = array.dtype.kind in "fc"
        if array.size == wanted.size and np.array_equal(
            array.reshape(-1), wanted.reshape(-1), nan_too
        ):
            yield value


def kind_of(call: Call) -> str:
    """Return what an operator is called on both sides."""
    name = call.name.strip("_").lower()
    name = name[1:] if name in ("radd", "rsub", "rmul", "rtruediv", "rpow", "rdiv") else name
    name = name[1:] if name in ("iadd", "isub", "imul", "itruediv", "idiv") else name
    return _ALIKE.get(name, name)


def numbers_in(call: Call) -> list[float]:
    """Return the plain numbers that a call was given, axes and other whole numbers aside."""
    return [value for value in call.options.values() if isinstance(value, float)]
