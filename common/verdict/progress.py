"""What judging some logs has settled, for judging them again with single-step logs beside them.

A red check judges its logs up to four times, each time with one log more.  That log changes no row
before the first that is off, and one that is only looked at when all rows are judged changes none.
NumPy only.
"""

import os
from collections.abc import Mapping, Sequence
from copy import copy

from common.logs.key import Key
from common.verdict.row import Row

_ALWAYS = ("ref32", "cand32", "ref64", "cand64", "noise", "again1")
_AFTERWARDS = "free64"  # what only `Inside` looks at


class Progress:
    """Of the logs of one stem, from one judging to the next; an empty one has settled nothing."""

    def __init__(self):
        self.scales: dict[str, float] | None = None  # see JudgeOfRows
        self.asked = False  # as Evidence has it
        self.doubted: list[Key] = []  # as JudgeOfRows has it
        self._sources: dict[str, tuple] = {}  # log -> its version
        self._summed: set[str] = set()
        self._rows: list[Row] = []  # as they were before they were settled
        self._all = False  # whether these are the rows of all keys
        self._known: Mapping[str, object] | None = None  # of the first row that is off
        self._first = 0  # its number

    def begin(
        self, sources: Mapping[str, object], keys: Sequence[Key], summed: set[str]
    ) -> tuple[list[Row], Mapping[str, object] | None]:
        """The rows that need not be judged once more, and what is known before the next.

        sources   the logs' names and paths
        summed    keys of which some log holds sums
        """
        now = {name: _version(path) for name, path in sources.items() if path is not None}
        before, self._sources = self._sources, now
        summed_before, self._summed = self._summed, summed
        unlike = any(before.get(name) != now.get(name) for name in _ALWAYS)
        if unlike or summed != summed_before:
            self.scales, self._known, self._rows, self._all = None, None, [], False
        elif self._all and _without(before) == _without(now):
            return [copy(row) for row in self._rows], None
        elif self._known is not None:
            case = keys[self._first].case
            ended = {key.case for key in keys[: self._first]} - {case}
            if not any(key.case in ended for key in keys[self._first :]):
                return [copy(row) for row in self._rows[: self._first]], self._known
        return [], None

    @property
    def seeks_first(self) -> bool:
        """True until the first row that is off was seen."""
        return self._known is None

    def first_off(self, number: int, known: Mapping[str, object]) -> None:
        """The number of the first row that is off, and what was known before it."""
        self._first, self._known = number, known

    def end(self, rows: Sequence[Row], all_keys: bool, judge) -> None:
        """The rows that were judged, before they are settled, and their judge."""
        self._rows, self._all = [copy(row) for row in rows], all_keys
        self.scales, self.asked = judge.kind_scales, judge.evidence.asked
        self.doubted = list(judge.doubted)


def _version(path: object) -> tuple:
    about = os.stat(path)
    return str(path), about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _without(sources: Mapping[str, tuple]) -> dict[str, tuple]:
    return {name: version for name, version in sources.items() if name != _AFTERWARDS}
