"""Find the line of a port that makes the first value which the reference has nowhere.

Only what lies on a way to a wrong result counts, and only through values without a counterpart: a
port that is written another way computes much that the reference does not, and comes back to the
same values.  Among those that are left the one is it that stands where the reference has something
of the same kind which the port has nowhere.  Reads two traces (logs/trace.py); NumPy only.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twincheck.common.line.relations import factor, relation
from twincheck.common.line.values import Pool, bare, is_mask, lengths, of_axes
from twincheck.common.logs.match import is_constant
from twincheck.common.logs.trace import PYTHON, Call, Trace
from twincheck.common.system.reasons import Kind

# What a value of the port is among the reference's.
SAME, PARTS, CONSTANT, NEW = "same", "parts", "constant", "new"
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
_CUTS = ("reshape", "view", "unflatten")  # an axis, into several
_TURNS = ("transpose", "permute", "t", "moveaxis", "swapaxes")
# They put numbers elsewhere, or leave some out.
_ORDERS = frozenset(
    (*_MOVES, *_TURNS, *"split chunk unbind getitem index_select gather".split())
) | frozenset("repeat repeat_interleave tile flip roll".split())
_TELLING = 4  # numbers, from which on a value is known by them
_MOST_RELATED = 60  # of the reference's values that one is compared with


@dataclass
class Suspect:
    """A call of the port that may be where a result begins to be wrong."""

    call: Call
    of_reference: Call | None = None  # what makes the related value there
    how: str = ""  # how it is related
    values: tuple[np.ndarray, np.ndarray] | None = None  # the wrong one, and the reference's
    is_known: bool = False  # the reference has this very value, but elsewhere


class Finder:
    """The two traces of a case, matched.

    close  how far the same number may lie apart on both sides, of the largest of its value
    """

    def __init__(self, reference: Trace, port: Trace, close: float):
        self.reference, self.port = reference, port
        told = (v for one in reference.calls if one.name == PYTHON for v in one.made)
        told = {v for v in told if reference.values[v].size == 1}  # it is any such number
        known = [np.zeros(0) if v in told else array for v, array in enumerate(reference.values)]
        self.pool, self._own = Pool(known, close), Pool(port.values, close)
        self._states: dict[int, str] = {}
        self._partners: dict[int, list[int]] = {}

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
            if call is not None and call.name == PYTHON and is_constant(array):
                self._states[value] = CONSTANT  # it may be made of itself, in a loop
                made_up = all(self._state(v) == CONSTANT for v in call.given if v != value)
            if not self._own.numbers[value].size or made_up and is_constant(array):
                self._states[value] = CONSTANT
            else:
                known = SAME if self.partners(value) else NEW
                is_whole = known == SAME or not self.pool.has_parts(array)
                self._states[value] = known if is_whole else PARTS
        return self._states[value]

    def maker(self, value: int) -> Call | None:
        """Return the call that made a value; None where nobody is seen to."""
        number = self.port.maker.get(value)
        return None if number is None else self.port.calls[number]

    @cached_property
    def gradients(self) -> Pool:
        """The gradients of the reference's values."""
        return Pool(list(self.reference.gradients.values()), self.pool.close)

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
        made = (of.maker[v] for v in equal_to(right, enumerate(of.values)) if v in of.maker)
        return next((of.calls[number] for number in made), None)

    def suspect(self, wrong: np.ndarray, right: np.ndarray) -> Suspect | None:
        """Return where a wrong result begins to be wrong; None where that is not seen.

        wrong, right  as the port's run and the reference's logged it
        """
        made = [v for v in equal_to(wrong, enumerate(self.port.values)) if v in self.port.maker]
        is_right = wrong.shape == right.shape and np.allclose(wrong, right, 1e-9, 1e-12)
        if not made or is_right:
            return None
        idle = (v for v in made[1:] if kind_of(self.maker(v)) in _OF_TWO)  # times 1, plus 0
        result = next(idle, made[0])
        if self.is_fine(result):
            return self._moved(result, True) or self._of_known(result, wrong, right)
        chain = self._chain(result)
        return self._scaled(chain, factor(wrong, right)) or self._first_of(chain)

    def _first_of(self, chain: Mapping[int, Sequence[int]]) -> Suspect | None:
        """Return the suspect among the values on a way, as `_chain` gives it."""
        plain: set[int] = set()
        first, at_edge, behind = None, None, None
        for value, before in chain.items():
            if self._is_shown_right(value):
                first = first or Suspect(self.maker(value))
                plain.add(value)
                continue
            is_edge = plain.issuperset(before)
            suspect = self._suspect(value, is_edge)
            if suspect.of_reference is not None:
                return suspect
            first = first or suspect
            if is_edge and self._is_plain(value):
                plain.add(value)
            elif is_edge:
                # Much of Python's is a step to a table: it is one that the reference has otherwise.
                has_like = bare(self.port.values[value]).size in self._lacking
                if suspect.call.name != PYTHON or has_like:
                    at_edge = at_edge or suspect
            else:
                behind = behind or suspect
        moved = (self._moved(one, False) for value in chain for one in self._with_given(value))
        moved = next(filter(None, moved), None)
        return moved or at_edge or behind or first

    def _is_shown_right(self, value: int) -> bool:
        """Return whether the port makes a value of the reference's of one that it has not.

        Such a one is right, and written another way.  What a probe has replaced was not used.
        """
        if value in self.port.put.values():
            return False
        for call in self._users.get(value, ()):
            for array in (self.port.values[v] for v in call.made if self._state(v) == SAME):
                is_number = array.dtype.kind == "f" and not is_mask(array)
                if is_number and np.unique(array).size >= _TELLING:
                    return True
        return False

    @cached_property
    def _users(self) -> dict[int, list[Call]]:
        """A value of the port -> the calls that it was given to."""
        found: dict[int, list[Call]] = {}
        for call in self.port.calls:
            for value in call.sources:
                found.setdefault(value, []).append(call)
        return found

    def _with_given(self, value: int) -> list[int]:
        """Return what a value was made of, where it is known, and the value."""
        return [*filter(self.is_fine, self.maker(value).sources), value]

    def _of_known(self, result: int, wrong: np.ndarray, right: np.ndarray) -> Suspect | None:
        """Return the suspect of a result that the reference has elsewhere, or that is a mask."""
        own = self._back(self.maker(result), _CASTS)
        call = self._back(own, _MOVES)
        if call is not None and call.fed:
            arranged = self._chain(*call.fed, is_fine=self._has_its_axes)
            call = next((self.maker(v) for v, before in arranged.items() if not before), call)
            return Suspect(call, how=relation(wrong, right), is_known=True)
        if call is None or call is not own and kind_of(call) not in _JOINS:
            return None
        how = relation(wrong, right) if wrong.size == right.size else ""
        return Suspect(call, how=how, is_known=True)

    def _moved(self, value: int, is_shown: bool) -> Suspect | None:
        """Return where numbers of the reference's come into an order that it has nowhere.

        That is, where it puts the same ones into another order, of the same axes' lengths.

        is_shown  only where the port has nothing in the reference's order
        """
        whole, moves = value, []
        while not self._has_its_axes(whole) and (call := self.maker(whole)) is not None:
            if kind_of(call) not in _ORDERS or not call.given:
                return None
            moves.append((call, lengths(self.port.values[whole])))
            whole = call.given[0]
        own, partners = self.port.values[value], self.partners(whole) if moves else ()
        for call, other in self._moved_there(partners):
            if lengths(other) == lengths(own) and not (is_shown and self._is_in_port(other)):
                makers = _ordering(moves[::-1])
                given = (self.maker(v) for one in makers for v in one.given if not self.is_fine(v))
                made_up = (one for one in given if one is not None and not one.given)
                how = relation(own, other)
                return Suspect(next(made_up, makers[0]), call, how, (own, other), is_known=True)
        return None

    def _moved_there(self, values: Iterable[int]) -> Iterator[tuple[Call, np.ndarray]]:
        """Give what the reference makes of some values by putting their numbers elsewhere."""
        reached = set(values)
        for call in self.reference.calls if reached else ():
            if kind_of(call) in _ORDERS and call.given and call.given[0] in reached:
                reached.update(call.made)
                yield from ((call, self.reference.values[made]) for made in call.made)

    def _has_its_axes(self, value: int) -> bool:
        """Return whether a value is one of the reference's, along the same axes."""
        array, partners = self.port.values[value], self.partners(value)
        return any(of_axes(array, self.reference.values[v], self.pool.close) for v in partners)

    def _is_in_port(self, array: np.ndarray) -> bool:
        """Return whether the port has a value of the reference's, along the same axes."""
        alike = self._own.counterparts(array)
        return any(of_axes(self.port.values[v], array, self.pool.close) for v in alike)

    def _back(self, call: Call | None, kinds: Collection[str]) -> Call | None:
        """Return the last call of other kinds before one, past those of a single value."""
        while call is not None and len(call.given) == 1 and kind_of(call) in kinds:
            call = self.maker(call.given[0])
        return call

    def _chain(self, *results: int, is_fine=None) -> dict[int, list[int]]:
        """A value on the way to some results -> those without a counterpart that it was made of.

        In the order in which they were made.
        """
        found: dict[int, list[int]] = {}
        is_fine = is_fine or self.is_fine
        todo = [v for v in results if not is_fine(v)]
        while todo:
            value = todo.pop()
            call = self.maker(value)
            if value not in found and call is not None:
                before = (v for v in call.sources if not is_fine(v))
                found[value] = [v for v in before if self.maker(v) is not None]
                todo += found[value]
        order = {id(one): (one.name != PYTHON, i) for i, one in enumerate(self.port.calls)}
        return dict(sorted(found.items(), key=lambda item: order[id(self.maker(item[0]))]))

    def _scaled(self, chain: Iterable[int], by: float | None) -> Suspect | None:
        """Return the call on a way whose number is the reference's times what the result is."""
        theirs = [one for one in self.reference.calls if kind_of(one) in _OF_TWO]
        others = {n: one for one in theirs for n in numbers_in(one)} | {1.0: None}
        for call in map(self.maker, chain if by else ()):
            if kind_of(call) == "div" and len(call.given) == 2:
                count = self.port.values[call.given[1]].reshape(-1)
                if count.size == 1 and _is_whole(count[0]) and _is_whole(count[0] * by):
                    told = {"paddle": round(float(count[0])), "torch": round(float(count[0] * by))}
                    return Suspect(call, how=Kind.LINE_COUNT(**told))
            for number in numbers_in(call) if kind_of(call) in _OF_TWO else ():
                for its, other in others.items():
                    if number not in others and its and np.isclose(number / its, by, 1e-9):
                        return Suspect(call, other)
        return None

    def _is_plain(self, value: int) -> bool:
        """Return whether a step may well be taken in a right port, and elsewhere otherwise."""
        call = self.maker(value)
        if not call.sources:
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
        is_right = self._has_its_axes if kind_of(call) in _ORDERS else self.is_fine
        return bool(made) and all(map(is_right, made))

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
        moved = filter(None, (self._moved(one, True) for one in self._with_given(value)))
        if (suspect := next(moved, None)) is not None:
            return suspect
        lacking = self._lacking.get(bare(array).size, [])
        like = self._like(call)
        if like is not None and any(map(self._is_lacking, like.made)):
            other = self.reference.values[next(filter(self._is_lacking, like.made))]
            return Suspect(call, like, relation(array, other), (array, other))
        for other in lacking[:_MOST_RELATED]:
            its = self.reference.values[other]
            how = relation(array, its)
            if how and (how.kind is not Kind.LINE_NEAR or at_edge):
                maker = self.reference.calls[self.reference.maker[other]]
                return Suspect(call, maker, how, (array, its))
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
        if len(call.given) > 1 or kind_of(call) in _OF_TWO:
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
        if not all(map(self.is_fine, call.sources)):
            return None
        given = [set(self.partners(v)) for v in call.sources if self._state(v) == SAME]
        alike = (one for one in self.reference.calls if kind_of(one) == kind_of(call))
        fed = (one for one in alike if given and not any(map(set(one.sources).isdisjoint, given)))
        return next(fed, None)


def _ordering(moves: Sequence[tuple[Call, list[int]]]) -> list[Call]:
    """Return which of some calls put numbers into their order, of which the last has the lengths.

    The first that has them; before it what has cut an axis for it, and how axes are turned then.

    moves  (call, the lengths of the axes of what it makes), the first first
    """
    calls = [call for call, _ in moves]
    at = next(i for i, (_, found) in enumerate(moves) if found == moves[-1][1])
    cut = at - 1
    while cut > 0 and kind_of(calls[cut]) in _TURNS:
        cut -= 1
    return calls[cut if cut >= 0 and kind_of(calls[cut]) in _CUTS else at : at + 1]


def equal_to(wanted: np.ndarray, among: Iterable[tuple[int, np.ndarray]]) -> Iterator[int]:
    """Give the numbers of those arrays that are the same as one, in another shape maybe."""
    for value, array in among:
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


def _is_whole(number: float) -> bool:
    if not np.isfinite(number) or round(number) < 1:
        return False
    return bool(np.isclose(number, round(number), 1e-9, 0))


def numbers_in(call: Call) -> list[float]:
    """Return the plain numbers that a call was given, axes and other whole numbers aside."""
    return [value for value in call.options.values() if isinstance(value, float)]
