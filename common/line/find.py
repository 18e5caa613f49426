"""Find the line of a port that makes the first value which the reference has nowhere.

Only what lies on a way to a wrong result counts, and only through values without a counterpart: a
port that is written another way computes much that the reference does not, and comes back to the
same values.  Among those that are left the one is it that stands where the reference has something
of the same kind which the port has nowhere.  Reads two traces (logs/trace.py); NumPy only.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from twincheck.common.line.relations import is_constant, relation
from twincheck.common.line.values import Pool, bare, numbers_of, within
from twincheck.common.logs.trace import Call, Trace
from twincheck.common.system.reasons import Kind

# What a value of the port is among the reference's.
SAME, CONSTANT, ORDER, PART, NEW = "same", "constant", "order", "part", "new"
FINE = (SAME, CONSTANT)
_ALIKE = {
    "concat": "cat",
    "multiply": "mul",
    "divide": "div",
    "truediv": "div",
    "subtract": "sub",
    "take_along_axis": "gather",
}
# They put numbers through unchanged, or by one other number: alone they are no fault.
_PLAIN = frozenset(
    "add astype assign broadcast_to cast cat chunk clone contiguous div double expand flatten "
    "float getitem moveaxis mul neg permute repeat repeat_interleave reshape scale split squeeze "
    "stack sub swapaxes t tile to transpose unbind unsqueeze view".split()
)
_JOINS = ("cat", "stack")
_OF_TWO = ("add", "sub", "mul", "div")
_CASTS = ("astype", "cast", "to", "double", "float", "contiguous", "clone", "assign")
_MOVES = frozenset(
    (*_CASTS, *"reshape view unsqueeze squeeze expand broadcast_to flatten unflatten".split())
)
_MOST_RELATED = 60  # of the reference's values that one is compared with


@dataclass
class Suspect:
    """A value of the port that may be where a result begins to be wrong."""

    call: Call
    value: int
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
        self.wanted: Call | None = None  # what makes the right result
        self._states: dict[int, str] = {}
        self._partners: dict[int, list[int]] = {}
        self._lacking: dict[int, list[int]] | None = None
        self._number = {i: numbers_of(array, close) for i, array in enumerate(port.values)}
        self._made_before = self._makers_by_content()

    # ---- what a value is ------------------------------------------------------------------------

    def partners(self, value: int) -> list[int]:
        """Return the reference's values that one of the port's is."""
        if value not in self._partners:
            self._partners[value] = self.pool.counterparts(self.port.values[value])
        return self._partners[value]

    def state(self, value: int) -> str:
        """Return what a value of the port is among the reference's."""
        if value not in self._states:
            self._states[value] = self._state(value)
        return self._states[value]

    def _state(self, value: int) -> str:
        array, numbers = self.port.values[value], self._number[value]
        call = self.maker(value)
        if not numbers.size or is_constant(array) and (call is None or not call.given):
            return CONSTANT
        if self.partners(value) or self.pool.has_parts(array):
            return SAME
        if any(True for _ in self.pool.of_numbers(numbers)):
            return ORDER
        if call is not None and call.given:
            some = [self._number[i] for i in call.given]
            pool = np.unique(np.concatenate([np.zeros(1), *some]))
            if numbers.size <= pool.size and within(numbers, pool, self.pool.close):
                return PART
        return NEW

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

    def lacking(self, size: int) -> list[int]:
        """Return the reference's values of a size that the port has nowhere, in their order."""
        if self._lacking is None:
            self._lacking = {}
            for call in self.reference.calls:
                for value in call.made:
                    array = self.reference.values[value]
                    if array.size > 1 and not is_constant(array):
                        if not self._own.counterparts(array):
                            self._lacking.setdefault(bare(array).size, []).append(value)
        return self._lacking.get(size, [])

    # ---- where it begins ------------------------------------------------------------------------

    def suspects(self, wrong: np.ndarray, right: np.ndarray) -> list[Suspect]:
        """Return where a wrong result may begin to be wrong, the likeliest first.

        wrong  as the port's run logged it; none where that is not seen
        right  as the reference's did
        """
        result = _value_of(self.port, wrong)
        if result is None or wrong.shape == right.shape and np.allclose(wrong, right, 1e-9, 1e-12):
            return []
        wanted = _value_of(self.reference, right)
        if wanted is not None:
            self.wanted = self.reference.calls[self.reference.maker[wanted]]
        how = relation(wrong, right) if wrong.size == right.size else ""
        if self.state(result) in FINE:  # of another place there, or a mask
            call = self.maker(result)
            while call is not None and len(call.given) == 1 and kind_of(call) in _CASTS:
                call = self.maker(call.given[0])
            own = call
            while call is not None and len(call.given) == 1 and _hands_on(call):
                call = self.maker(call.given[0])
            joins = call is not None and (call is own or kind_of(call) in _JOINS)
            return [Suspect(call, result, None, how, is_known=True)] if joins else []
        chain, todo = {}, [result]
        while todo:
            value = todo.pop()
            if value in chain or self.maker(value) is None:
                continue
            before = [v for v in self.maker(value).given if self.state(v) not in FINE]
            chain[value] = before = [v for v in before if self.maker(v) is not None]
            todo += before
        order = {id(call): i for i, call in enumerate(self.port.calls)}
        chain = dict(sorted(chain.items(), key=lambda item: order[id(self.maker(item[0]))]))
        named, unnamed, plain = [], [], set()
        for value, before in chain.items():
            suspect = self._suspect(value, plain.issuperset(before))
            if suspect.of_reference is None and plain.issuperset(before):
                if self._is_plain(value):
                    plain.add(value)
            if suspect.of_reference is not None:
                if not any(v in {s.value for s in named} for v in self._behind(chain, value)):
                    named.append(suspect)
            elif value not in plain:
                unnamed.append((not plain.issuperset(before), suspect))
        unnamed.sort(key=lambda pair: pair[0])
        first = [Suspect(self.maker(value), value) for value in chain][:1]
        return [*named, *(suspect for _, suspect in unnamed)] or first

    def _behind(self, chain: dict[int, list[int]], value: int) -> Iterable[int]:
        """Give the values of a chain that one was made of."""
        seen, todo = set(), list(chain[value])
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += chain.get(one, ())
                yield one

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
        return bool(made) and all(self.state(value) in FINE for value in made)

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
        like = self._like(call)
        lacking = self.lacking(bare(array).size)[:_MOST_RELATED]
        if like is not None and set(like.made) & set(self._all_lacking()):
            how = next(
                (r for v in like.made if (r := relation(array, self.reference.values[v]))), ""
            )
            return Suspect(call, value, like, how)
        for other in lacking:
            how = relation(array, self.reference.values[other])
            if how and (how.kind is not Kind.LINE_NEAR or at_edge):
                return Suspect(call, value, self.reference.calls[self.reference.maker[other]], how)
        return self._given_another(call, value) if at_edge else Suspect(call, value)

    def _given_another(self, call: Call, value: int) -> Suspect:
        """Return what made the value that the reference's same operator is given another for."""
        size, kind = bare(self.port.values[value]).size, kind_of(call)
        like = [c for c in self._makers_of_lacking(size) if kind_of(c) == kind]
        if len(call.given) > 1:
            shared = [set().union(*map(self.partners, call.given)) & set(c.given) for c in like]
            like = [c for c, some in zip(like, shared, strict=True) if some]
        if len({c.place for c in like}) != 1:
            return Suspect(call, value)
        theirs = set(like[0].given)
        mine = set().union(*map(self.partners, call.given))
        if any(self._own.counterparts(self.reference.values[v]) for v in theirs - mine):
            return Suspect(call, value, like[0])  # which has what it should be given
        for one in call.given:
            if self.state(one) == SAME and not theirs.intersection(self.partners(one)):
                maker = self.maker(one)
                while maker and len(maker.given) == 1 and kind_of(maker) in _PLAIN:
                    maker = self.maker(maker.given[0])
                if maker is not None:
                    return Suspect(maker, one, like[0], is_known=True)
        return Suspect(call, value, like[0])

    def _makers_of_lacking(self, size: int) -> list[Call]:
        """Return the reference's calls that make what the port has nowhere, of a size."""
        return [self.reference.calls[self.reference.maker[v]] for v in self.lacking(size)]

    def _all_lacking(self) -> list[int]:
        return [value for values in self._lacking.values() for value in values]

    def _like(self, call: Call) -> Call | None:
        """Return the reference's call of the same operator on the same values."""
        kind = kind_of(call)
        given = [v for v in call.given if self.state(v) == SAME]
        if len(given) < len(call.given) and not all(self.state(v) in FINE for v in call.given):
            return None
        for other in self.reference.calls:
            if kind_of(other) != kind:
                continue
            theirs = set(other.given)
            if given and all(theirs & set(self.partners(v)) for v in given):
                return other
        return None


def _value_of(trace: Trace, wanted: np.ndarray) -> int | None:
    """Return the last value of a trace that equals an array and was made by a call."""
    for value in reversed(range(len(trace.values))):
        array = trace.values[value]
        if array.size == wanted.size and value in trace.maker:
            if np.array_equal(
                array.reshape(-1), wanted.reshape(-1), equal_nan=array.dtype.kind in "fc"
            ):
                return value
    return None


def kind_of(call: Call) -> str:
    """Return what an operator is called on both sides."""
    name = call.name.strip("_").lower()
    name = name[1:] if name in ("radd", "rsub", "rmul", "rtruediv", "rpow", "rdiv") else name
    name = name[1:] if name in ("iadd", "isub", "imul", "itruediv", "idiv") else name
    return _ALIKE.get(name, name)


def _hands_on(call: Call) -> bool:
    """Return whether a call gives the numbers that it is given; teacher forcing ends in x * 1."""
    fed = kind_of(call) == "mul" and call.options.get("1") == 1.0
    return fed or kind_of(call) in _MOVES


def numbers_in(call: Call) -> list[float]:
    """Return the plain numbers that a call was given, axes and other whole numbers aside."""
    return [value for value in call.options.values() if isinstance(value, float)]
