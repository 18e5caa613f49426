"""Which operators make the two sides differ: the notes on a transplant, and the smallest set.

Runs in the check's process, without either framework.  A trial is one run of the Paddle side with
some operators computed by torch (extras/bits/patch.py), against the finished torch logs.

Where the check is green, the goal is that every tensor gets the same bits: the operators found are
the whole difference.  Where it is red, the goal is green: the operators found are what is wrong.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.errors import UserError
from twincheck.common.system.words import printable
from twincheck.common.verdict.row import Row
from twincheck.extras.bits import Kind
from twincheck.extras.bits.operators import ALL, TABLE


@dataclass
class Bits:
    """How a Paddle log's floats compare to torch's."""

    same: set[str] = field(default_factory=set)
    off: dict[str, float] = field(default_factory=dict)  # key -> mean |difference|, in log order


def compare_bits(folder: Path, reference: Path, stems: Sequence[str]) -> Bits:
    """The float32 logs of both sides, tensor by tensor; keys of one side alone are passed over."""
    bits = Bits()
    for stem in stems:
        with ExitStack() as stack:
            torch = stack.enter_context(read_log(ResultFolder(reference).log(stem, "torch")))
            paddle = stack.enter_context(read_log(ResultFolder(folder).log(stem, "paddle")))
            for key in torch:
                if key not in paddle:
                    continue
                a, b = torch[key], paddle[key]
                if a.dtype.kind != "f" or a.shape != b.shape:
                    continue
                if np.array_equal(a, b, equal_nan=True):
                    bits.same.add(key)
                else:
                    bits.off[key] = float(np.mean(np.abs(a.astype(np.float64) - b)))
    return bits


# ---- after --transplant --------------------------------------------------------------------------


def transplant_notes(folder: Path, stems: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Notes on a run whose Paddle side had operators computed by torch; [] for any other.

    rows  of the table of its verdicts
    """
    sidecar = sidecar_of(ResultFolder(folder).log(stems[0], "paddle"))
    if not sidecar.transplanted:
        return []
    tally = tally_of(folder, stems)
    called = [name for name, counts in tally.items() if counts["calls"]]
    measured = [row for row in rows if row.max_abs is not None]
    off = [row.key for row in measured if row.max_abs]
    notes = [
        Kind.TRANSPLANTED(count=len(called)),
        Kind.TENSORS_EQUAL(count=len(measured) - len(off), total=len(measured)),
    ]
    needed = differing(tally)
    if needed:
        notes.append(Kind.OTHER_BITS())
        notes += [_counted(name, tally[name]) for name in needed]
        notes.append(Kind.NEEDED_ALONE(operators=",".join(needed)))
    untaken = [name for name, counts in tally.items() if counts["untaken"]]
    for name in untaken:
        reason, calls = max(tally[name]["untaken"].items(), key=lambda item: item[1])
        notes.append(Kind.STAYED(operator=name, count=calls, why=printable(reason)))
    if off:
        place = printable(sidecar.places.get(off[0], ""))
        said = {"key": off[0], "where": Kind.AT(place=place) if place else ""}
        why = _reason(off[0])
        notes.append(Kind.STILL_DIFFER(count=len(off), **said, why=why))
    return notes


def _reason(key: str) -> str:
    """Why a tensor still differs although torch computed the operators."""
    return Kind.OPTIMIZERS_OWN() if Key.parse(key).is_step else Kind.NOT_TRANSPLANTED()


def _counted(name: str, counts: dict) -> str:
    parts = [Kind.OF_CALLS(differed=counts["differed"], count=counts["calls"])]
    if counts["gradients"]:
        differed = counts["gradients_differed"]
        parts.append(Kind.OF_GRADIENTS(differed=differed, count=counts["gradients"]))
    where = Kind.FIRST_IN(module=printable(counts["where"])) if counts["where"] else ""
    largest = counts["largest"]
    return Kind.OPERATOR_COUNTED(operator=name, counts=parts, largest=largest, where=where)


def tally_of(folder: Path, stems: Sequence[str]) -> dict[str, dict]:
    """Operator -> its counts, from the float32 sidecars of a transplanted run."""
    tally: dict[str, dict] = {}
    for stem in stems:
        sidecar = sidecar_of(ResultFolder(folder).log(stem, "paddle"))
        tally |= sidecar.operators
    return {name: counts for name, counts in tally.items() if name in TABLE}


def differing(tally: dict[str, dict]) -> list[str]:
    """Operators whose own results differ, the largest difference first."""
    names = [n for n, counts in tally.items() if counts["differed"] or counts["gradients_differed"]]
    return sorted(names, key=lambda name: -tally[name]["largest"])


# ---- --transplant smallest -----------------------------------------------------------------------


class Search:
    """The fewest operators that torch must compute to reach the goal; a trial is a run of Paddle.

    workers  starts the Paddle side; its plain run is there, with torch's logs, weights and choices
    green    whether that run's verdict passed
    judge    (folder) -> exit status of the logs in it
    """

    def __init__(self, workers, step, pair: Pair, green: bool, judge: Callable):
        self.workers, self.step, self.pair = workers, step, pair
        self.folder = workers.work / pair.name  # of the finished plain run
        self.trials = workers.work / "smallest" / pair.name
        self.green, self.judge = green, judge
        self.runs = 0
        self.wanted: set[str] = set()  # keys that must have the same bits, where that is the goal

    def notes(self) -> list[str]:
        """Run the search; its result in sentences."""
        ResultFolder(self.folder).take_over(self.trials)
        plain = compare_bits(self.folder, self.folder, self.step.judged)
        if self.green and not plain.off:
            return [Kind.ALL_EQUAL_ALREADY()]
        with_all = self.trial([ALL], count=True)
        tally = tally_of(self.trials, self.step.judged)
        self._forget()
        if self.green:
            return self._for_bits(plain, with_all, tally)
        return self._for_green(with_all, tally)

    def _for_bits(self, plain: Bits, with_all: Bits, tally: dict[str, dict]) -> list[str]:
        """The smallest set that gives every tensor the bits that the transplant of all gives it."""
        self.wanted = with_all.same
        notes = []
        if with_all.off:
            off = len(with_all.off)
            counts = {"count": off, "total": off + len(with_all.same)}
            key = next(iter(with_all.off))
            first = {"key": key, "why": _reason(key)}
            notes.append(Kind.DIFFER_WITH_ALL(**counts, **first))
        chosen = differing(tally)
        if not self.wanted <= self.trial(chosen).same:
            chosen = [name for name, counts in tally.items() if counts["calls"]]
        without: dict[str, Bits] = {}  # of the trial without one operator
        for name in list(chosen):
            rest = [other for other in chosen if other != name]
            bits = self.trial(rest) if rest else plain
            if self.wanted <= bits.same:
                chosen = rest
            else:
                without[name] = bits
        # What differs although it should not: key -> mean |difference|, in log order.
        left = {
            name: {key: off for key, off in without[name].off.items() if key in self.wanted}
            for name in chosen
        }
        ordered = sorted(chosen, key=lambda name: -list(left[name].values())[-1])
        return [
            *notes,
            Kind.SMALLEST(runs=self.runs, operators=",".join(ordered)),
            Kind.IN_ORDER_OF_BLAME(count=len(self.wanted)),
            *(_extent(name, left[name]) for name in ordered),
        ]

    def _for_green(self, with_all: bool, tally: dict[str, dict]) -> list[str]:
        """One operator that makes the check green, else the smallest set that does."""
        if not with_all:
            return [Kind.NONE_MAKES_GREEN()]
        called = [name for name, counts in tally.items() if counts["calls"]]
        ordered = sorted(called, key=lambda name: -tally[name]["largest"])
        chosen = next(([name] for name in ordered if self.trial([name])), None)
        if chosen is None:
            chosen = ordered
            for name in reversed(ordered):  # first those whose results differ least
                rest = [other for other in chosen if other != name]
                if self.trial(rest):
                    chosen = rest
        return [
            Kind.SMALLEST_TO_GREEN(runs=self.runs, operators=",".join(chosen)),
            *(_counted(name, tally[name]) for name in chosen),
        ]

    def trial(self, names: list[str], count: bool = False):
        """One run: Bits where equal bits are the goal, else whether it is green."""
        self.runs += 1
        of = {"step": self.step.number, "model": self.pair.name}
        self.workers.on_progress(Kind.NOW_TRIAL(**of, number=self.runs, count=len(names)))
        failed = self.workers.trial(
            self.pair,
            self.trials,
            transplant=",".join(names),
            uncounted=not count,
            only_float32=self.green,
        )
        if failed:
            raise UserError(Kind.TRIAL_FAILED(operators=",".join(names), error=failed))
        if self.green:
            outcome = compare_bits(self.trials, self.folder, self.step.judged)
        else:
            outcome = self.judge(self.trials) == 0
        if not count:
            self._forget()
        return outcome

    def _forget(self) -> None:
        """Remove the Paddle side's logs of a trial: they may be large."""
        for path in self.trials.glob("*_paddle*"):
            path.unlink()


def _extent(name: str, off: dict[str, float]) -> str:
    """How many tensors differ without an operator, from which to which, and by how much."""
    keys = list(off)
    last = {"last": keys[-1], "off": off[keys[-1]]}
    return Kind.LEAVES_DIFFERENT(operator=name, count=len(keys), first=keys[0], **last)
