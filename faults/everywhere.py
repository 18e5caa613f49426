"""Hard pairs and planted faults on other paths of the linear algebra, as other processors take.

    make faults-everywhere                                    all of it
    python -m faults.everywhere --path MKL_CBWR=COMPATIBLE    one path (may be repeated)
    python -m faults.everywhere --only transformer --step 1   hard pairs of one folder, one step

A path is a variable of the environment that tells a library which instructions or how many threads
to use.  On each: every correct hard pair, and one fault of the catalogue for each check of steps 1,
3 and 4, behind a correct run of that check (--faults all: each one, 15 minutes more for each path).
A setting that changes no bit of any log had no effect on this processor, and the table says so.
Exit status 0: no false alarm and no fault lost on any path.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from faults import hard, run
from faults.catalogue import FAULTS
from faults.fault import USERS, Fault
from faults.warm import Interpreters
from faults.worker import Check
from twincheck.common.check.options import positive
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.half import EPSILONS
from twincheck.common.system.program import Parser, guarded
from twincheck.common.verdict.tolerances import tolerance

USUAL = "OMP_NUM_THREADS=1"  # what tests and `make faults` run under; the others are compared to it
PATHS = (
    USUAL,
    "OMP_NUM_THREADS=2",
    "OMP_NUM_THREADS=4",
    "MKL_DEBUG_CPU_TYPE=5",
    "MKL_DEBUG_CPU_TYPE=",  # what AMD's processors have where nobody helps them
    "MKL_ENABLE_INSTRUCTIONS=AVX2",
    "MKL_ENABLE_INSTRUCTIONS=SSE4_2",
    "MKL_CBWR=COMPATIBLE",
    "ATEN_CPU_CAPABILITY=default",
    "ONEDNN_MAX_CPU_ISA=SSE41",
)
SIDES = ("torch", "paddle")
NO_EFFECT = "nothing: no effect here"
LONG_SUMS = "operators"  # the folder whose sums may be noisier the longer they are
# Gradients and what an optimizer step has touched have bounds that depend on their kind's size.
_OF_A_KIND = re.compile(r"/(grad|grad_of|\d{3})/")


@dataclass
class Outcome:
    """What one path came to."""

    path: str
    pairs: int = 0
    controls: int = 0
    faults: int = 0
    alarms: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # caught, but another row is named
    noisiest: float = 0.0  # Paddle's float32 noise against what is usually allowed
    noisiest_row: str = ""
    logs: dict[str, str] = field(default_factory=dict)  # run and side -> SHA-256
    error: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """True where nothing went wrong."""
        return not (self.alarms or self.lost or self.error)

    def changes(self, usual: "Outcome | None") -> str:
        """Which side's bits the setting changed."""
        if usual is self:
            return "–"
        common = set() if usual is None else self.logs.keys() & usual.logs.keys()
        if not common:
            return "not known"
        changed = [
            side
            for side in SIDES
            if any(self.logs[key] != usual.logs[key] for key in common if key.endswith(side))
        ]
        return " and ".join(changed) or NO_EFFECT

    def take(self, seen: "Seen") -> None:
        """Take in a run's logs and its noisiest row."""
        self.logs |= seen.logs
        if seen.noisiest > self.noisiest:
            self.noisiest, self.noisiest_row = seen.noisiest, seen.noisiest_row


@dataclass
class Seen:
    """Of one run: its logs' hashes, and its noisiest row."""

    logs: dict[str, str] = field(default_factory=dict)
    noisiest: float = 0.0
    noisiest_row: str = ""


def see(one: hard.Run, document: Mapping, folder: Path) -> Seen:
    """What is kept of a run's report and of the folder of its logs."""
    seen = Seen()
    for side in SIDES:
        digest = hashlib.sha256()
        for log in sorted(folder.rglob(f"*_{side}*.npy")):
            if not log.stem.endswith("_teacher_forced"):
                digest.update(log.read_bytes())
        seen.logs[f"{one.step} {one.name} {side}"] = digest.hexdigest()
    for row in document["rows"] if one.folder != LONG_SUMS else ():
        ratio = _noise_ratio(row)
        if ratio > seen.noisiest:
            seen.noisiest, seen.noisiest_row = ratio, f"step {one.step}, {row['key']}"
    return seen


FEW = 8  # values of which the reference's noise may be small by luck


def _noise_ratio(row: Mapping) -> float:
    """A row's noise against 16 times the reference's; 0 for what has a bound of another kind.

    More than 1 may still pass, by the measured noise: see common/verdict/rule.py.
    """
    noise = [row[name] for name in ("noise_cand", "noise_ref", "scale")]
    if None in noise or row["size"] < FEW or _OF_A_KIND.search(row["key"]):
        return 0.0
    usual = max(noise[1], EPSILONS["float32"] * noise[2], 2.0**-126)
    return noise[0] / (tolerance("precision") * usual)


@contextmanager
def taking(path: str) -> Iterator[None]:
    """The environment with one path's setting, and without those of the others."""
    before = dict(os.environ)
    for name in {path.partition("=")[0] for path in PATHS}:
        os.environ.pop(name, None)
    try:
        for setting in (USUAL, path):
            name, _, value = setting.partition("=")
            os.environ[name] = value
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def try_path(path: str, options: argparse.Namespace, on_progress) -> Outcome:
    """Run on one path all that was asked for."""
    outcome, start = Outcome(path), time.perf_counter()
    with taking(path), Interpreters() as warm:
        workers = max(1, options.workers // int(os.environ["OMP_NUM_THREADS"]))
        try:
            _run_pairs(outcome, options, workers, on_progress, warm.python)
            _run_faults(outcome, options, workers, on_progress, warm.python)
        except UserError as error:
            outcome.error = str(error)
    outcome.seconds = round(time.perf_counter() - start, 1)
    return outcome


def _run_pairs(outcome: Outcome, options, workers: int, on_progress, python: str) -> None:
    runs = [
        one
        for one in hard.RUNS
        if (not options.only or one.folder in options.only)
        and (not options.step or one.step in options.step)
    ]
    pairs = hard.run(workers, on_progress, runs, python, see, outcome.take)
    outcome.pairs = len(pairs)
    outcome.alarms += [
        f"step {pair['step']}, {pair['name']}: {pair['verdict']} {pair['worst']}"
        for pair in pairs
        if pair["exit_code"] != 0
    ]


def chosen_faults(options: argparse.Namespace) -> list[Fault]:
    """The faults of the catalogue that are planted on each path.

    `few` is the first of each check whose verdict is read from floats: what is refused by a hash or
    a sentence, what changes logs or texts, and training (step 5, judged by statistics) do not
    depend on the path.  Users' pairs, a check for nearly every fault, are left out of it.
    """
    if options.faults == "none" or options.only:
        return []
    faults = [fault for fault in FAULTS if not options.step or fault.step in options.step]
    if options.faults == "all":
        return faults
    first: dict[Check, Fault] = {}
    for fault in faults:
        of_floats = fault.step in (1, 3, 4) and not fault.refused and fault.after is None
        if of_floats and not fault.model.startswith(USERS):
            first.setdefault(Check.of(fault), fault)
    return list(first.values())


def _run_faults(outcome: Outcome, options, workers: int, on_progress, python: str) -> None:
    faults = chosen_faults(options)
    if not faults:
        return
    found = run.plant(faults, workers, on_progress, python)
    outcome.controls, outcome.faults = len(found["controls"]), outcome.faults + len(faults)
    outcome.alarms += [
        f"step {control['step']}, {control['model']}, a correct run: {control['first']}"
        for control in found["controls"]
        if control["exit_code"] != 0
    ]
    outcome.lost += [
        f"{fault['id']}: exit status {fault['exit_code']}"
        for fault in found["faults"]
        if not fault["caught"]
    ]
    outcome.elsewhere += [
        f"{fault['id']}: {fault['first']}, not {fault['wanted']}"
        for fault in found["faults"]
        if fault["caught"] and not fault["origin_right"]
    ]


# What goes wrong, by the name of its field -> in words.
_KINDS = {
    "alarms": "false alarm",
    "lost": "lost",
    "elsewhere": "caught elsewhere",
}


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """The table, and a line for all that went wrong."""
    usual = next((outcome for outcome in outcomes if outcome.path == USUAL), None)
    table = Table(title="other paths of the linear algebra", title_justify="left")
    table.add_column("path", no_wrap=True)
    for name in ("changes bits of", "false alarms", "lost", "noisiest", "minutes"):
        table.add_column(name)
    for one in outcomes:
        table.add_row(
            one.path,
            one.changes(usual),
            f"{len(one.alarms)} of {one.pairs + one.controls}",
            f"{len(one.lost)} of {one.faults}",
            f"{one.noisiest:.2f}",
            f"{one.seconds / 60:.1f}",
        )
    console.print(table)
    for one in outcomes:
        for kind, name in _KINDS.items():
            for text in getattr(one, kind):
                console.print(f"{one.path}: {name}: {text}", markup=False, soft_wrap=True)
        if one.error:
            console.print(f"{one.path}: could not run: {one.error}", markup=False, soft_wrap=True)
    alarms, lost = (sum(len(getattr(one, kind)) for one in outcomes) for kind in ("alarms", "lost"))
    right = sum(one.pairs + one.controls for one in outcomes)
    console.print(
        f"{len(outcomes)} paths: {alarms} false alarms in {right} correct runs, {lost} of "
        f"{sum(one.faults for one in outcomes)} faults lost"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--path", action="append", choices=PATHS, metavar="NAME=VALUE")
    parser.add_argument("--only", action="append", metavar="FOLDER", help="its pairs, no catalogue")
    parser.add_argument("--step", type=int, action="append", help="of this step alone")
    parser.add_argument("--faults", choices=("all", "few", "none"))
    parser.add_argument("--workers", type=positive, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    folders = {one.folder for one in hard.RUNS}
    unknown = set(options.only or []) - folders
    if unknown:
        raise UserError(
            f"--only {', '.join(sorted(unknown))}: hard pairs are in {', '.join(sorted(folders))}"
        )
    if options.only and options.faults:
        raise UserError("--faults: with --only nothing of the catalogue is planted: leave it out")
    options.faults = options.faults or "few"
    outcomes = []
    for path in options.path or PATHS:

        def say(text: str, path: str = path) -> None:
            print(f"{path}: {text}", flush=True)

        outcomes.append(try_path(path, options, say))
        if options.json:
            text = json.dumps([asdict(one) for one in outcomes], indent=1, allow_nan=False)
            write_text(options.json, text)
    show(outcomes, Console())
    return 0 if all(one.passed for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
