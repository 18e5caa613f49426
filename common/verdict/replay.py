"""Rows made once more, each by itself, from some of a log's tensors.

A row's verdict depends on its own tensors, on a few others' (the scores of a choice, the moments
behind a weight), and on what the rows before have shown (common/verdict/judge.py: `known`).
`needed` finds which tensors those are by making a row and watching what it reads; `again` makes it
from logs that hold these alone.  NumPy only.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from common.logs.key import Key
from common.verdict.inside import is_inside
from common.verdict.judge import JudgeOfRows
from common.verdict.logs_of_a_run import Logs
from common.verdict.row import Row

# Of a number that is measured anew: another processor adds up in another order.
SAME_NUMBER = 1e-6
_OF_THE_WHOLE = ("step", "model")  # fields that say where a row belongs


@dataclass(frozen=True, slots=True)
class Seen:
    """A row as it was judged, and what that depended on beside tensors."""

    key: str
    group: str  # of the tensors that it shares its scale with
    scale: float | None  # S of that group
    known: str  # as JSON, without S
    row: Row


class Watch:
    """An observer of judge_logs that keeps what it is told."""

    def __init__(self):
        self.seen: list[Seen] = []

    def __call__(self, key: Key, known: dict[str, object], row: Row) -> None:
        scale = known.pop("S")
        text = json.dumps(known, separators=(",", ":"), default=float)
        self.seen.append(Seen(str(key), key.group, scale, text, row))


@dataclass
class Reads:
    """What making a row has read of its logs."""

    tensors: dict[tuple[str, str], None] = field(default_factory=dict)  # (log, key)
    shapes: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  # of others


class _WatchedLogs(Logs):
    """Logs that note what is read of them; or, given shapes, that know those of other tensors."""

    def __init__(self, stack: ExitStack, sources: Mapping, parts: bool):
        super().__init__(stack, sources, parts)
        self.reads = Reads()
        self.known_shapes: Mapping[tuple[str, str], tuple[int, ...]] = {}

    def get(self, name: str, key: object) -> np.ndarray | None:
        value = super().get(name, key)
        if value is not None:
            self.reads.tensors[name, str(key)] = None
        return value

    def shape(self, name: str, key: object) -> tuple[int, ...] | None:
        shape = super().shape(name, key)
        if shape is None:
            return self.known_shapes.get((name, str(key)))
        self.reads.shapes[name, str(key)] = shape
        return shape


class Replay:
    """Makes rows of a stem, each by itself.  Close it, or use `with`.

    logs    what judge_logs takes: the whole logs, or with `parts` logs that hold some of it
    scales  S of each group of tensors
    """

    def __init__(
        self,
        logs: Mapping[str, Path],
        scales: Mapping[str, float],
        strict: bool = False,
        allow_nan: bool = False,
        parts: bool = False,
    ):
        self._stack = ExitStack()
        try:
            self.logs = _WatchedLogs(self._stack, logs, parts)
        except BaseException:
            self._stack.close()
            raise
        if ("ref64" in self.logs) != ("cand64" in self.logs):
            self.logs.leave_out("ref64")
            self.logs.leave_out("cand64")
        self.built_in = bool(self.logs.sidecars["ref32"].built_in)
        self.strict = strict or self.built_in
        self.scales = scales
        self._allow_nan = allow_nan

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()

    def row(
        self,
        key: str,
        known: Mapping[str, object],
        shapes: Mapping[tuple[str, str], tuple[int, ...]] | None = None,
    ) -> tuple[Row, Reads]:
        """The row of a key from what was known before it, and what it took to make it.

        known   as JudgeOfRows.known gives it, without S
        shapes  of tensors that the logs do not hold
        """
        parsed = Key.parse(key, self.logs.cases)
        self.logs.reads, self.logs.known_shapes = Reads(), shapes or {}
        judge = JudgeOfRows(self.logs, self.strict, self._allow_nan, scales={})
        row = judge.row_from(parsed, {**known, "S": self.scales.get(parsed.group)})
        row.inside = is_inside(parsed, self.logs)
        reads, self.logs.reads = self.logs.reads, Reads()
        for place in reads.tensors:
            reads.shapes.pop(place, None)
        return row, reads

    def group(self, key: str) -> str:
        """The group of tensors that a key shares its scale with; empty for none."""
        return Key.parse(key, self.logs.cases).group


def differences(row: Mapping[str, object], again: Mapping[str, object]) -> list[str]:
    """The fields in which two rows, as JSON has them, differ; numbers by more than rounding."""
    return [
        name
        for name, value in again.items()
        if name not in _OF_THE_WHOLE and not _same(row.get(name), value)
    ]


def _same(one: object, other: object) -> bool:
    numbers = [type(value) in (int, float) for value in (one, other)]
    if not all(numbers) or isinstance(one, int) and isinstance(other, int):
        return type(one) is type(other) and one == other
    return same_number(one, other)


def same_number(one: float | None, other: float | None) -> bool:
    """True for two numbers that differ by no more than another order of summation makes."""
    if one is None or other is None:
        return one is other
    return one == other or abs(one - other) <= SAME_NUMBER * max(abs(one), abs(other))
