"""Which operators make the two sides differ: the notes on a transplant, and the smallest set.

Runs in the check's process, without either framework.  A trial is one run of the Paddle side with
some operators computed by torch (extras/bits/patch.py), against the finished torch logs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from twincheck.common.logs.key import Key
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.errors import UserError
from twincheck.common.system.words import printable
from twincheck.common.verdict.row import Row
from twincheck.extras.bits import Kind
from twincheck.extras.bits.operators import ALL, TABLE

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
    """Say why a tensor still differs although torch computed the operators."""
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
    """The fewest operators that torch must compute to make a red check green: the wrong ones.

    workers  starts the Paddle side; its plain run is there, with torch's logs, weights and choices
    green    whether that run's verdict passed; then nothing is searched for
    judge    (folder) -> exit status of the logs in it
    """

    def __init__(self, workers, step, pair: Pair, green: bool, judge: Callable):
        self.workers, self.step, self.pair = workers, step, pair
        self.folder = workers.work / pair.name  # of the finished plain run
        self.trials = workers.work / "smallest" / pair.name
        self.green, self.judge = green, judge
        self.runs = 0

    def notes(self) -> list[str]:
        """Run the search; its result in sentences."""
        if self.green:
            return [Kind.GREEN_ALREADY()]
        ResultFolder(self.folder).take_over(self.trials)
        with_all = self.trial([ALL], count=True)
        tally = tally_of(self.trials, self.step.judged)
        self._forget()
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

    def trial(self, names: list[str], count: bool = False) -> bool:
        """Run Paddle's side with these operators torch's; return whether that is green."""
        self.runs += 1
        of = {"step": self.step.number, "model": self.pair.name}
        self.workers.on_progress(Kind.NOW_TRIAL(**of, number=self.runs, count=len(names)))
        named = ",".join(names)
        failed = self.workers.trial(self.pair, self.trials, transplant=named, uncounted=not count)
        if failed:
            raise UserError(Kind.TRIAL_FAILED(operators=named, error=failed))
        is_green = self.judge(self.trials) == 0
        if not count:
            self._forget()
        return is_green

    def _forget(self) -> None:
        """Remove the Paddle side's logs of a trial: they may be large."""
        for path in self.trials.glob("*_paddle*"):
            path.unlink()
