"""Rows of a bundle made once more, from the tensors that are in it and from what was written down.

A row is a function of its tensors and of a few others' (the scores of a choice, the moments behind
a weight), and then of all rows together.  `Watched` makes it and notes what it reads of the logs;
`Told` has what was made of every key, as it was written down, so that all rows can be settled once
more (common/verdict/settle.py) where most tensors are not there.  NumPy only.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.of_a_run import Logs
from twincheck.common.system.reasons import Kind as CoreKind
from twincheck.common.verdict.comparisons import Comparisons, Memo
from twincheck.common.verdict.row import Row, claim, read_row
from twincheck.common.verdict.settle import Settling
from twincheck.common.verdict.tolerances import tolerance
from twincheck.extras.bundle import Kind

# Of a number that is measured anew: another processor adds up in another order.
SAME_NUMBER = 1e-6
_OF_THE_WHOLE = ("step", "model")  # fields that say where a row belongs


@dataclass
class Reads:
    """The tensors of the logs, and shapes of others, that making a row has read."""

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


class Watched:
    """Makes rows of one stem, each by itself.

    stack   closes the logs
    logs    what judge_logs takes: the whole logs, or with `parts` logs that hold some of it
    rows    key -> shape of its tensor, of all rows of the stem, in their order
    scales  S of each group of tensors
    """

    def __init__(
        self,
        stack: ExitStack,
        logs: Mapping[str, object],
        rows: Mapping[str, tuple[int, ...]],
        scales: Mapping[str, float],
        strict: bool = False,
        allow_nan: bool = False,
        parts: bool = False,
    ):
        self.logs = _WatchedLogs(stack, logs, parts)
        self.logs.leave_out_lone_float64()
        self.strict = strict or bool(self.logs.sidecars["ref32"].built_in)
        self._shapes = {Key.parse(key, self.logs.cases): shape for key, shape in rows.items()}
        self._scales, self._allow_nan = dict(scales), allow_nan
        self._rows = self._comparisons(Comparisons, Memo())

    def make(
        self,
        key: str,
        which: Iterable[str],
        shapes: Mapping[tuple[str, str], tuple[int, ...]] | None = None,
    ) -> tuple[dict[str, object], Reads]:
        """Make what is known of a key, as JSON; return it and what was read to make it.

        which   the names of what is to be made
        shapes  of tensors that the logs do not hold
        """
        parsed = self.parse(key)
        self.logs.reads, self.logs.known_shapes = Reads(), shapes or {}
        made = {name: _as_json(self._rows.make(name, parsed)) for name in which}
        reads, self.logs.reads = self.logs.reads, Reads()
        for place in reads.tensors:
            reads.shapes.pop(place, None)
        return made, reads

    def settle(self, made: Mapping[str, Mapping[str, object]]) -> dict[str, Row]:
        """Key -> what all rows together come to, up to what is inside the model.

        made   key -> what was made of it, as JSON has it, own rows of all keys among it
        """
        memo = Memo()
        for key, of_key in made.items():
            parsed = self.parse(key)
            memo.made |= {(name, parsed): _from_json(value) for name, value in of_key.items()}
        settling = Settling(self._comparisons(Told, memo), self.strict)
        return {str(key): settling.row(key) for key in self._shapes}

    def _comparisons(self, kind: type[Comparisons], memo: Memo) -> Comparisons:
        memo.scales = self._scales
        return kind(self.logs, self._shapes, self._allow_nan, memo=memo, shapes=self._shapes)

    def parse(self, key: str) -> Key:
        """A key of these logs."""
        return Key.parse(key, self.logs.cases)


class Told(Comparisons):
    """Comparisons of which all that was made was written down."""

    def make(self, which: str, key: Key) -> object:
        return None


def _as_json(made: object) -> object:
    """Return what was made of a key, as JSON has it."""
    return made.as_json() if isinstance(made, Row) else made


def _from_json(value: object) -> object:
    return read_row(value) if isinstance(value, Mapping) else value


def made_of(memo: Memo) -> dict[str, dict[str, object]]:
    """Key -> what was made of it, as JSON has it; without what there was none of."""
    found: dict[str, dict[str, object]] = {}
    for (name, key), value in memo.made.items():
        if value is not None and value is not False:
            found.setdefault(str(key), {})[name] = _as_json(value)
    return found


def differences(row: Mapping[str, object], again: Mapping[str, object]) -> list[str]:
    """The fields in which two rows, as JSON has them, differ; numbers by more than rounding."""
    return [
        name
        for name, value in again.items()
        if name not in _OF_THE_WHOLE and not _same(row.get(name), value)
    ]


def same_made(one: object, other: object) -> bool:
    """Return whether what was made of a key is the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return not differences(one, other)
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        largest = max(map(abs, [*one, *other]), default=0.0)
        near = (abs(a - b) <= SAME_NUMBER * largest for a, b in zip(one, other, strict=False))
        return len(one) == len(other) and all(near)
    return _same(one, other)


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


def contradiction(row: Mapping) -> str:
    """Say how a row's own numbers contradict it; empty where they do not."""
    if row["measure"] == "claim":
        off, allowed = (np.nan if row[n] is None else row[n] for n in ("gap", "allowed"))
        wanted = claim(row["key"], off, allowed)
        if off != off and row["verdict"] in ("DIVERGED", "INVALID"):
            return ""  # infinity, for which JSON has no word
        # What shows nothing is off as what differs is.
        written = "DIVERGED" if row["verdict"] == "UNDECIDED" else row["verdict"]
        if (wanted.verdict, wanted.origin) != (written, row["origin"]):
            return Kind.CONTRADICTS_CLAIM(wanted=wanted.verdict, written=row["verdict"])
        return ""
    if row["verdict"] == "ROUNDING" and not row["excuses"] and row["gap"] is not None:
        if row["allowed"] is not None and not row["gap"] <= row["allowed"]:
            return Kind.CONTRADICTS_ROUNDING()
    if row["verdict"] == "IDENTICAL" and row["max_abs"]:
        return Kind.CONTRADICTS_IDENTICAL()
    if row["mean_abs"] is not None and row["max_abs"] is not None:
        if row["mean_abs"] > row["max_abs"] * (1 + 1e-3):
            return Kind.CONTRADICTS_MEAN()
        guide = bool(np.float32(row["mean_abs"]) <= np.float32(tolerance("guide")))
        near = abs(row["mean_abs"] - tolerance("guide")) <= 1e-9 * tolerance("guide")
        if row["guide_passed"] is not None and row["guide_passed"] != guide and not near:
            return Kind.CONTRADICTS_GUIDE()
    return ""


def may_settle(row: Mapping, alone: Mapping, wrong: Sequence[str], strict: bool) -> bool:
    """Return whether what is inside a model, or half precision, may make this of a row.

    alone   the row before
    wrong   the fields in which they differ
    """
    if alone["verdict"] == row["verdict"]:
        return set(wrong) <= {"note", "reasons", "origin", "excuse", "excuses", "fed", "proof"}
    if row["verdict"] == "INSIDE" or CoreKind.MATCHED.name in row["excuses"]:
        return row["inside"] and not strict
    if row["verdict"] == "CONSTANT":  # what operators bring, shown in a run that is fed nothing
        return alone["verdict"] == "CARRIED"
    if row["verdict"] == "PRECISION":  # in half precision each module is judged by itself too
        return row["by_itself"]
    return row["verdict"] in ("INVALID", "DIVERGED") and not strict
