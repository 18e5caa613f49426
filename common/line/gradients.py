"""Find the line of a port at which a gradient begins to be wrong: what its value goes through.

From a value with a wrong gradient on to what was made of it, as long as a gradient there is wrong
too: behind the last of these the gradient is the reference's, so it is that call which changes it,
or keeps it back.  NumPy only.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from twincheck.common.line.find import Finder, Suspect, equal_to, kind_of
from twincheck.common.line.relations import relation
from twincheck.common.logs.trace import Call
from twincheck.common.system.reasons import Kind

_CUTS_OFF = ("detach", "detach_")


class GradientFinder:
    """The gradients of two traces, matched.

    finder  of their values
    """

    def __init__(self, finder: Finder):
        self.values, self.reference, self.port = finder, finder.reference, finder.port
        self._seen_as: dict[int, list[int]] = {}  # a value -> what probes put in its place
        for value, made in self.port.put.items():
            self._seen_as.setdefault(made, []).append(value)

    def suspect(
        self, value: np.ndarray | None, wrong: np.ndarray | None, right: np.ndarray | None
    ) -> Suspect | None:
        """Return the call at which a gradient begins to be wrong; None where that is not seen.

        value         whose gradient it is; None of a parameter
        wrong, right  the port's gradient and the reference's; None for none
        """
        if value is None:
            found = [] if wrong is None else equal_to(wrong, self.port.gradients.items())
        else:
            found = equal_to(value, enumerate(self.port.values))
        found = self._as_seen(found)
        if not found:
            return None
        if wrong is None:
            call = self._cut(found) or self._behind(found, lambda one: self._cut(one.given) is one)
            call = call or self._dead_end(found)
        elif right is None:
            call = self._behind(found, self._has_more, is_more=True)
        else:
            call = self._before_right(found)
        if call is None:
            return None
        how = relation(wrong, right) if wrong is not None and right is not None else ""
        return Suspect(call, how=Kind.LINE_CUTS_OFF() if _is_cut(call) else how, is_known=True)

    def _before_right(self, found: list[int]) -> Call | None:
        """Return the call whose result has the right gradient, and what it is given a wrong one."""
        seen = set(found)
        while calls := self._given(found):
            wrongs = [one for one in calls if any(map(self._is_wrong, self._as_seen(one.made)))]
            wrongs = [one for one in wrongs if not _is_cut(one) and seen.isdisjoint(one.made)]
            if not wrongs:
                return self._strange(calls, found)
            found = self._as_seen(wrongs[-1].made)
            if any(map(self._is_more, found)):
                return wrongs[-1]
            seen.update(found)
        return None

    def _behind(
        self, found: list[int], is_it: Callable[[Call], bool], is_more: bool = False
    ) -> Call | None:
        """Return the farthest call of a kind, of those that led to some values.

        is_more  whether the way back goes through values that have a gradient, or have none
        """
        todo, seen, last = list(found), set(), None
        while todo:
            value = todo.pop()
            call = self.values.maker(self.port.put.get(value, value))
            if value not in seen and call is not None:
                seen.add(value)
                if is_it(call):
                    last = call
                if not _is_cut(call):
                    todo += [v for v in call.given if (v in self.port.gradients) == is_more]
        return last

    def _has_more(self, call: Call) -> bool:
        """Return whether what a call makes has a gradient which it has not in the reference."""
        return any(map(self._is_more, self._as_seen(call.made)))

    def _dead_end(self, found: list[int]) -> Call | None:
        """Return the last call that some values go through, where none has a gradient."""
        last, seen = None, set(found)
        while calls := self._given(found):
            found = [v for one in calls for v in self._as_seen(one.made) if v not in seen]
            if not self.port.gradients.keys().isdisjoint(found):
                return None
            seen.update(found)
            last = calls[-1]
        return last

    def _given(self, values: Iterable[int]) -> list[Call]:
        """Return the calls that are given one of some values."""
        return [one for one in self.port.calls if not set(one.given).isdisjoint(values)]

    def _cut(self, found: Sequence[int]) -> Call | None:
        """Return what lets no gradient back to some values, where the reference has less of it."""
        own = [one for one in self._given(found) if _is_cut(one)]
        theirs = [one for one in self._theirs(found) if _is_cut(one)]
        return own[-1] if len(own) > len(theirs) else None

    def _strange(self, calls: list[Call], found: list[int]) -> Call | None:
        """Return the one of some calls that the reference has not, or the only one on both sides.

        Calls in one line are one.
        """
        theirs = [one for one in self._theirs(found) if not _is_cut(one)]
        kinds = set(map(_kind, theirs))
        others = [one for one in calls if _kind(one) not in kinds]
        if not others and len({one.place for one in theirs}) == 1:
            others = calls
        return others[-1] if len({one.place for one in others}) == 1 else None

    def _theirs(self, found: Iterable[int]) -> list[Call]:
        """Return the reference's calls that are given what some values are there."""
        partners = {v for value in found for v in self.values.partners(value)}
        return [one for one in self.reference.calls if not partners.isdisjoint(one.given)]

    def _as_seen(self, values: Iterable[int]) -> list[int]:
        """Return some values, and what probes put in their places."""
        found = list(values)
        for value in found:
            found += self._seen_as.get(value, ())
        return found

    def _is_wrong(self, value: int) -> bool:
        """Return whether a value's gradient is none of the reference's, or lacks."""
        gradient = self.port.gradients.get(value)
        if gradient is not None:
            return gradient.size > 0 and not self.values.gradients.counterparts(gradient)
        return self.port.values[value].size > 1 and self._has_theirs(value)

    def _has_theirs(self, value: int) -> bool:
        return any(v in self.reference.gradients for v in self.values.partners(value))

    def _is_more(self, value: int) -> bool:
        """Return whether a value has a gradient that it has not in the reference."""
        known = self.values.partners(value) and not self._has_theirs(value)
        return bool(known) and value in self.port.gradients


def _is_cut(call: Call) -> bool:
    return kind_of(call) in _CUTS_OFF


def _kind(call: Call) -> str:
    return kind_of(call).replace("_", "")  # a layer's class, and its function
