"""Find the edit of the port that makes a red check green, proven by the check itself.

    twincheck mend DIR             shows the edit as a diff
    twincheck mend DIR --write     and puts it into the file; the old one stays beside it, as .orig

Where step 1, 3 or 4 is red, or the port does not run, some hundreds of edits of the lines around
its origin are tried: towards the reference's function of the same name, another number, keyword,
function, operator, name or order of arguments, a call or a statement left out or put in; then of
what case.py says of the weights, RENAME and convert.  Each runs in float64, in memory; with
--dtype, or where float32 alone is off, in that precision.  What brings the origin to the
reference's value, and takes no other value away from it, is put into a copy of the pair, and the
whole check judges that, every case and mode, once more with another seed, and with all sizes of
CONFIGS twice as large where that can be run.  Where further mistakes come to light there, the
search goes on.  A port that is right but begins with other values than torch's gets another
initialiser, or the lines that step 1 shows, which step 1 judges.  Where these steps are green, but
2 or 5 is not, the check alone judges, edit by edit.  What makes all steps green is proven, and
--write writes nothing else.  What mends only some of what is red is shown too.

It leaves mend.json in DIR/log/mend: schema 1; model; pair; red (the step's number and the row's
key, each time; no key where the port does not run); tried; edits, a list of {step, row, place,
kind, old, new, alike (other edits that are as good), doubtful (red where all sizes are twice as
large, or a later step cannot be run with it)}; proven; diff; seconds.

Exit status: 0 nothing is red, or the mend is proven; 1 none was found; 2 it could not be tried.
"""

import ast
import difflib
import itertools
import json
import os
import re
import shutil
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from twincheck.common.check.options import CheckOptions, Parser, positive
from twincheck.common.check.result import Result, shown
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair, load_pair, python_for
from twincheck.common.pair.request import FIRST, RunRequest
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal as report
from twincheck.common.report.findings import class_of, findings_of
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.files import whole
from twincheck.common.system.folders import remove_abandoned, working_folder
from twincheck.common.system.half import HALF
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import Kind as CoreKind
from twincheck.common.system.reasons import is_of, renamed
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.row import AGREEING, FAILING, Row
from twincheck.extras.mend import Kind
from twincheck.extras.mend.beginnings import beginnings
from twincheck.extras.mend.distances import FARTHEST, NEARER, OFF
from twincheck.extras.mend.edits import (
    CASE,
    KINDS,
    MAPPING,
    Edit,
    Source,
    Values,
    edits,
    joined,
    of_mapping,
    of_numbers,
)
from twincheck.extras.mend.reference import nearer
from twincheck.extras.mend.settings import Setting, of_settings
from twincheck.extras.shared.packages import environment_of, located, own_file, root_of
from twincheck.extras.shared.sides import (
    answered,
    asked,
    case_of,
    folder_of,
    function_of,
    only_pair,
)
from twincheck.extras.shared.steps import OTHERS, STEPS, checked, crashed_at

SCHEMA = 1
FILE, STEM = "mend.json", "mend"
BATCH = 10  # edits that a process is asked for at first, then twice as many each time
BATCH_S = 5.0  # but no more than take so long
MOST = 240
OF_LINE = -100  # the turn of what is in the line that a red check marks, before all others
CAUSES = 3  # of a red check, that are looked at in turn
PROOFS = 4  # of the nearest edits that the check is asked about
PATIENCE_S = 300
ALIKE = 0.5  # digits; edits that differ by less are as good
SMALL = 8  # new tokens; edits with fewer are alike in size
TRIAL_S = 20.0  # that one edit may take
LARGER = 10.0  # times as long a check may take where all sizes are twice as large
NEWLINE = b"\n"
KEYWORD = re.compile(rb", \w+=[^,()]+|\w+=[^,()]+, ")
# What an edit that ends in an error comes to: the fields of Tried.
FAILED = {"origin": FARTHEST, "nearer": 0, "away": 1, "digits": 0.0, "off": 1}
# What is put at the end of a case.py.
DOUBLED = b"""
CONFIGS = {
    name: {k: 2 * v if type(v) is int and v > 1 else v for k, v in config.items()}
    for name, config in CONFIGS.items()
}
"""
Places = Mapping[str, tuple[Path, int]]  # side -> a file, and its line or 0
# What is tried of a file: how one kind of layer is built; all edits; two of them at once.
SETTINGS, ONCE, TWICE = ("settings", "once", "twice")


@dataclass(frozen=True)
class Tried:
    """The effect of an edit on the values' distances from the reference's."""

    edit: Edit
    origin: float  # the origin's distance from the reference's, a part of its size
    nearer: int
    away: int
    digits: float  # that all values came nearer by, together
    off: int  # values that are off still
    near: bool = True  # the origin is nearer by more than chance
    failed: bool = False  # it ends in an error


@dataclass(frozen=True)
class Red:
    """A red row, or a port that does not run: what an edit is looked for."""

    row: str  # the first that is off; empty where the port does not run
    places: Mapping[str, str]  # side -> file:line
    before: Result | None  # what the check says; None where the port does not run
    rounded: bool = False  # float64 does not show it
    layer: str = ""  # the class of Paddle's that is built otherwise than torch's
    settings: Sequence[Setting] = ()  # by these
    numbers: Sequence[tuple[float, float]] = ()  # of its line, that the reference has otherwise

    @classmethod
    def all_of(cls, result: Result) -> list["Red"]:
        """The causes that a red check names first."""
        return [
            cls(
                one.row.key,
                one.places,
                result,
                one.row.verdict == "PRECISION",
                class_of(result, "paddle", one.layer),
                one.differing,
                [
                    (reason.fields["paddle"], reason.fields["torch"])
                    for reason in one.row.reasons
                    if is_of(reason, CoreKind.LINE_NUMBER, CoreKind.LINE_OPTION)
                ],
            )
            for one in findings_of(result)[:CAUSES]
        ]

    def files(self) -> list[str]:
        """Name the port's files that build or call a layer, where one is built otherwise."""
        if not self.settings:
            return []
        told = [of.get("paddle", {}) for of in (self.before.made, self.before.places)]
        places = (at for of in told for at in of.values())
        return sorted({at.split(" (")[0].rpartition(":")[0] for at in places})


@dataclass
class Mended:
    """One edit that was taken, and what it is for."""

    step: int
    row: str
    place: str
    kind: str
    old: str
    new: str
    alike: list[str] = field(default_factory=list)
    doubtful: bool = False  # with larger sizes it is red, or a later step cannot be run with it


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "mend")
    parser.take("model", "out", "preset", "mode", "dtype", "autocast", "seed", "weights")
    said = Kind.OPTION_SECONDS(seconds=PATIENCE_S)
    parser.add_argument("--seconds", type=positive, default=PATIENCE_S, metavar="S", help=said)
    parser.add_argument("--write", action="store_true", help=Kind.OPTION_WRITE())
    given = parser.take("json", "torch-python", "paddle-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _mend(given))


def _mend(given: Namespace) -> int:
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODELS_NOT_ONE(command=to_type("mend", "DIR")))
    if pair.built_in:
        raise UserError(Kind.PAIR_BUILT_IN(model=pair.name))
    base = folder_of(options, "mend")
    search = looked_for(pair, options, base, given.seconds)
    if given.json:
        write_json(given.json, search.as_json())
    if given.write and search.proven and search.mended:
        _write(search)
    return int(not search.proven)


def looked_for(pair: Pair, options: CheckOptions, base: Path, seconds: int) -> "Search":
    """The search as it ended, for so long at most; it was told, and its result is in `base`."""
    base.mkdir(parents=True, exist_ok=True)
    with report.progress() as on_progress:
        search = Search(pair, options, base, seconds, on_progress)
        search.run()
    write_json(base / FILE, search.as_json())
    _show(search)
    report.say(Kind.RESULT_WRITTEN(path=shown(base / FILE), seconds=search.seconds))
    return search


class Search:
    """The search for what makes one pair green."""

    def __init__(self, pair: Pair, options: CheckOptions, base: Path, seconds: int, on_progress):
        self.pair, self.base, self.on_progress = pair, base, on_progress
        self.started = time.monotonic()
        self.until = self.end = self.started + seconds  # of this search, and of all
        self.half = options.run.dtype in HALF
        self.rounded = self.half  # float64 does not show what is looked for
        self.options = replace(options, no_report=True, reuse="torch", json=None)
        self.processes: Processes | None = None  # of all checks
        self.mended: list[Mended] = []
        self.red: list[tuple[int, str]] = []
        self.tried = 0
        self.ran: set[int] = set()  # lines of the file that is edited
        self.files: set[Path] = set()  # of the pair, that its Paddle side imports
        self.crashed = ""  # what the port as it is ends with, in the last case
        self.off = 0  # values that are off there already
        self.doubtful: list[tuple[Tried, Result]] = []  # as in Mended
        self.green = False  # all steps, if with doubtful edits
        self.all_steps = False  # 2 and 5 too
        self.ahead: dict[int, Result] = {}  # what the steps behind say of the edit that is taken
        self.told = ""  # why nothing was found
        self.seconds = 0.0
        self.packages: dict[Path, Path] = {}  # where a package is -> where its edited files are
        self.edited: dict[Path, None] = {}
        self.written: dict[Path, bytes] = {}  # file -> what the edits make of it
        self.installed: set[Path] = set()  # of these, what packages have

    @property
    def proven(self) -> bool:
        """Return whether all steps are green, and nothing speaks against an edit."""
        return self.green and not any(one.doubtful for one in self.mended)

    def diff(self) -> str:
        """The edits as a unified diff of the pair's files."""
        lines: list[str] = []
        for file, new in self.written.items():
            old, now = (t.decode().splitlines(keepends=True) for t in (file.read_bytes(), new))
            path = shown(file)
            lines += difflib.unified_diff(old, now, path, path, n=2)
        return "".join(lines)

    def run(self) -> None:
        """Go from step to step, and from mistake to mistake, until all is green."""
        steps, others = ([s for s in of if not s.why_not(self.pair)] for of in (STEPS, OTHERS))
        remove_abandoned(self.base)
        with working_folder(self.base) as work, Processes() as self.processes:
            self.work_in(work)
            self.green = all(self._mend(step) for step in steps)
            if self.green and not self.red and not self.half:
                self.all_steps, steps = True, [*steps, *others]
                self.green = all(self._mend(step) for step in others)
            asking = {one.step for one in self.mended}
            last = max((i for i, step in enumerate(steps) if step.number in asking), default=0)
            if self.green:  # an edit that a later step asked for is none that an earlier one minds
                self.green = all(self.check(step).exit_code == 0 for step in steps[:last])
                self._doubt([step for step in steps if step in STEPS] if self.green else ())
            self.written = {self.original(path): path.read_bytes() for path in self.edited}
            others = (path for path in self.edited if not path.is_relative_to(self.copy))
            self.installed = set(map(self.original, others))
        self.seconds = time.monotonic() - self.started

    def work_in(self, work: Path) -> None:
        """Copy the pair into a folder: its Python files; what else it has is linked to.

        A file that it has under two names is one file in the copy too.
        """
        self.copy = work / "pair" / self.pair.folder.name
        copies: dict[str, Path] = {}
        for path in self.pair.files():
            own, real = self.copy / path.relative_to(self.pair.folder), os.path.realpath(path)
            own.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix != ".py":
                own.symlink_to(real)
            elif real in copies:
                own.symlink_to(os.path.relpath(copies[real], own.parent))
            else:
                shutil.copyfile(path, own)
                copies[real] = own
        out = work / "out"
        self.options = replace(self.options, models=(str(self.copy),), out=out)

    def _mend(self, step: Step) -> bool:
        """Make a step green, if it is not; whether it is in the end."""
        result = None
        try:
            result = self.ahead.pop(step.number, None) or self.check(step)
        except UserError as error:
            self.red.append((step.number, ""))
            if step in STEPS:  # the port may be what does not run
                at = crashed_at(error)
                with suppress(UserError):  # no, torch's side does not
                    result = self._step_on(step, Red("", {"paddle": at} if at else {}, None))
            if result is None:
                # What it names in full is gone with the copy.
                failure = getattr(error, "failure", None)
                told = failure.reason if failure else str(error)
                self.told = renamed(told, str(self.copy), shown(self.pair.folder))
                if not self.mended:
                    raise UserError(self.told) from None
                return False
        while result.exit_code or result.initial:
            if not result.exit_code:
                result = self._begun(step, result)
                if result is None:
                    return False
                continue
            causes, end, cut = Red.all_of(result), self.until, False
            self.red.append((step.number, causes[0].row))
            for i, red in enumerate(causes):
                left = max(0.0, end - time.monotonic())
                self.until = time.monotonic() + left / (len(causes) - i)
                better = self._step_on(step, red)
                if better is not None:
                    break
                cut = cut or time.monotonic() > self.until
            self.until = end
            if better is None:
                self.told = (Kind.TIME_UP if cut else Kind.NONE_MENDS)(count=self.tried)
                return False
            result = better
        return True

    def _begun(self, step: Step, result: Result) -> Result | None:
        """Give the port torch's initial values; the check's next result, with fewer others or none.

        What the check has found says what to write: nothing is searched for.
        """
        row = result.initial[0].key
        self.red.append((step.number, row))
        log = ResultFolder(result.folder).log(step.initial, "paddle")
        name, _, file = next(iter(sidecar_of(log).owners.values()))[""]
        places = dict.fromkeys(p for start in result.starts for p in start.places.values())
        built = [self.located("paddle", place)[0] for place in places]
        own = self.copy / "paddle_model.py"
        for path in dict.fromkeys(path for path in (Path(file), *built, own) if path.is_file()):
            is_own = path == own
            path = self.own(path)
            source = path.read_bytes()
            for edit in beginnings(Source(source), result.starts, name, is_own):
                path.write_bytes(edit.applied(source))
                self.tried += 1
                try:
                    now = self.check(step)
                    fewer = len(now.initial) < len(result.initial) and not now.exit_code
                    larger = fewer and not {"", row}.isdisjoint(self._red_when_larger(step))
                except UserError:
                    continue
                finally:
                    path.write_bytes(source)
                if fewer:
                    one = [(Tried(edit, 0.0, 0, 0, 0.0, 0), now)]
                    return self._take(step, row, path, one, is_doubtful=larger)
        self.told = Kind.NONE_BEGINS_ALIKE(count=self.tried)
        return None

    def check(self, step: Step, another: bool = False) -> Result:
        """Check the copy as it is now; raises UserError where it cannot run.

        another     with another seed: other inputs, weights and dropout
        """
        options = self.options
        if another:
            run = replace(options.run, seed=options.run.seed + 1)
            options = replace(options, run=run, out=options.out / "another")
        return self._checked(step, options)

    def _checked(self, step: Step, options: CheckOptions) -> Result:
        # What a process has imported of a package it keeps, though that was edited meanwhile.
        processes = None if self.packages else self.processes
        return checked(step, options, self.on_progress, processes)

    def _red_when_larger(self, step: Step) -> set[str]:
        """The rows that are red by themselves where all sizes are twice as large.

        Two sizes may have been one number by chance.  An empty key says that the port does not run
        so.  Where the reference does not, nothing is known.
        """
        out = self.options.out / "larger"
        folder = out / self.copy.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.copy, folder, symlinks=True)
        with open(folder / CASE, "ab") as file:
            file.write(DOUBLED)
        try:
            options = replace(self.options, models=(str(folder),), out=out)
            found = self._checked(step, options)
            rows = [*found.rows, *found.initial]
        except UserError as error:
            return {""} if crashed_at(error) else set()
        return {row.key for row in rows if row.verdict in FAILING and row.verdict != "CARRIED"}

    def _doubt(self, steps: Sequence[Step]) -> None:
        """Look at all edits together once more: what mended a part alone was not tried so."""
        for step in steps if len(self.mended) > 1 else ():
            some = [one for one in self.mended if one.step == step.number]
            red = self._red_when_larger(step) if some else set()
            for one in some:
                one.doubtful |= not red.isdisjoint({"", one.row})

    def _step_on(self, step: Step, red: Red) -> Result | None:
        """Put the edit into the copy that mends where it starts; the check's next result."""
        self.ahead = {}
        self.rounded = self.half or red.rounded
        places = {side: self.located(side, at) for side, at in red.places.items()}
        runs = step in STEPS
        singles: dict[Path, list[Tried]] = {}
        doubtful, began = None, time.monotonic()
        for path, wanted, turn in self._turns(places, red):
            if time.monotonic() > self.until or turn == TWICE and (self.rounded or not runs):
                break
            reference = reference_of(path, places)
            path = self.own(path)
            source, better, self.doubtful = path.read_bytes(), [], []
            if turn == TWICE:
                candidates = both(singles[path], source)
            else:
                singles[path] = []
                candidates = of_settings(Source(source), red.layer, red.settings)
            if turn == ONCE:
                others = candidates_of(path, wanted, reference, self.rounded, red.numbers)
                candidates = itertools.chain(candidates, others)
            best = (
                self._best(step, red, path, candidates, singles[path])
                if runs
                else in_order(candidates)
            )
            with closing(best) as batches:
                for groups in batches:
                    for group in groups[:PROOFS]:
                        better += self._proofs(step, red, path, source, group)
                        if better and better[-1][1].exit_code == 0:
                            break
                    enough = better or len(self.doubtful) >= PROOFS
                    if enough or time.monotonic() > self.until:
                        break
            if better:
                return self._take(step, red.row, path, better)
            if self.doubtful and not doubtful:  # as long again for one that is not
                doubtful = path, self.doubtful
                self.until = min(self.until, 2 * time.monotonic() - began)
        return self._take(step, red.row, *doubtful, is_doubtful=True) if doubtful else None

    def _take(self, step: Step, row: str, path: Path, better, is_doubtful: bool = False) -> Result:
        """Put the best of some edits of a file into the copy; what the check says of it."""
        source = path.read_bytes()
        one, now = min(better, key=lambda pair: _count_of_red(pair[1]))
        alike = [o for o, then in better if o is not one and not then.exit_code]
        path.write_bytes(one.edit.applied(source))
        mended = self._mended_by(step, row, path, source, [one, *alike])
        self.mended.append(replace(mended, doubtful=is_doubtful))
        self.edited[path] = None
        return now

    def _proofs(
        self, step: Step, red: Red, path: Path, source: bytes, group: Sequence[Tried]
    ) -> list[tuple[Tried, Result]]:
        """Return those of some edits that the check finds better, each with its result.

        `doubtful` gets those that larger sizes or a later step speak against.
        """
        better, ahead = [], {}
        for one in group[:PROOFS]:
            path.write_bytes(one.edit.applied(source))
            self.tried += step not in STEPS
            began = time.monotonic()
            try:
                now = self.check(step)
                seconds = time.monotonic() - began
                # An index that these inputs lack is as good as none, and a mend by chance.
                again = step in STEPS and not now.exit_code
                by_chance = again and self.check(step, another=True).exit_code
                in_time = time.monotonic() + LARGER * seconds < self.end
                sized = again and not by_chance and in_time
                doubtful = sized and not self._red_when_larger(step).isdisjoint({"", red.row})
                is_first = not any(not then.exit_code for _, then in better)
                if again and not by_chance and not doubtful and is_first:
                    ahead, doubtful = self._behind(step)
            except UserError:
                continue  # it cannot be run with this edit
            finally:
                path.write_bytes(source)
            if (red.before is None or is_better(red, now)) and not by_chance:
                (self.doubtful if doubtful else better).append((one, now))
                self.ahead = self.ahead or ahead
            if time.monotonic() > self.until:
                break
        return better

    def _behind(self, step: Step) -> tuple[dict[int, Result], bool]:
        """Check the steps behind one: number -> result, and whether the port crashes in one.

        Where the reference does not run nothing is known, and no edit of the port changes that.
        """
        said = {}
        for behind in STEPS[STEPS.index(step) + 1 :]:
            if not behind.why_not(self.pair):
                try:
                    said[behind.number] = self.check(behind)
                except UserError as error:
                    return {}, bool(crashed_at(error))
        return said, False

    def _turns(self, places: Places, red: Red) -> Iterator[tuple[Path, list[int], str]]:
        """(file, lines, turn): a layer's settings where they may stand, then one edit of all."""
        for file in red.files():
            path = located(self.python("paddle"), file)
            if path.is_file() and red.layer.encode() in path.read_bytes():
                yield path, [], SETTINGS
        tried = []
        for one in self.places_of(places):
            tried.append(one)
            yield (*one, ONCE)
        yield from ((*one, TWICE) for one in tried)

    def places_of(self, places: Places) -> Iterator[tuple[Path, list[int]]]:
        """(file, lines) of the port where a finding is, the pair's own, and what it imports.

        Last comes a case.py that says which weight is which.
        """
        path, line = places.get("paddle", (Path(), 0))
        if line and path.is_file():
            yield path, [line]
        own = self.copy / "paddle_model.py"
        if own != path and own.is_file():
            yield own, []
        case = self.copy / CASE
        # Known by now, since the port has run.
        yield from ((one, []) for one in sorted(self.files - {path, own, case}))
        if any(hasattr(self.pair.case, name) for name in MAPPING):
            yield case, []

    def python(self, side: str) -> str:
        """The path of the Python that runs a side."""
        return python_for(side, self.options.pythons.get(side), [self.pair])

    def located(self, side: str, place: str) -> tuple[Path, int]:
        """(file, line) of a place as a finding names it; line 0 where none is known."""
        name, _, line = place.split(" (")[0].rpartition(":")
        if not line.isdigit():
            return Path(name), 0
        return located(self.python(side), name), int(line)

    def own(self, path: Path) -> Path:
        """A file that may be edited: the pair's copy as it is, of a package a copy of it."""
        if path.is_relative_to(self.copy):
            return path
        root = root_of(path)
        # A file of a copy that is there already is a link to the package's until it is asked for.
        root = next((of for of, own in self.packages.items() if own == root), root)
        if root not in self.packages:
            python = self.python("paddle")
            target = self.copy.parent.parent / f"packages_{len(self.packages)}"
            own, self.packages[root] = environment_of(python, root, target)
            self.options = replace(self.options, paddle_python=own)
        return own_file(root, path.relative_to(root_of(path)), self.packages[root])

    def _best(
        self,
        step: Step,
        red: Red,
        path: Path,
        candidates: Iterator[Edit],
        all_tried: list[Tried],
    ) -> Iterator[list[list[Tried]]]:
        """The edits that mend the origin, the nearest first, those together that are alike.

        As soon as some make it right, those of a batch, and of the next one where none of them is
        small; in the end what brings it nearest.

        all_tried   gets what comes of every edit
        """
        found: list[Tried] = []
        right: list[Tried] = []
        source = path.read_bytes()
        origin, rows = red.row, red.before.rows if red.before else ()
        told = {
            "file": str(path),
            "step": function_of(step, origin),
            "origin": origin,
            "allowed": allowed_of(rows),
            "forced": True,
            "seconds": TRIAL_S,
        }
        near, runs = max(OFF, told["allowed"].get(origin, 0.0)), red.before is not None
        pair = load_pair(str(self.copy))
        with asked(pair, self.options, self.copy.parent, keep="all") as one:
            run = replace(one.run, states=None, progress=False)
            names = [(c.name or "main",) for c in pair.cases(run.preset, run.weights, run.modes)]
            names = [case_of(origin, pair, run) or names[0]] if runs else names
            work = one.work / step.name
            work.mkdir(parents=True, exist_ok=True)
            with WorkerProcess(one.pythons["paddle"], FIRST.format("paddle")) as process:
                process.module = "twincheck.extras.mend.trial"
                for case in names:  # a port that does not run does not in one of them
                    of_case = replace(run, cases=case)
                    told["torch"] = self._reference(step, one.pythons["torch"], of_case, work)
                    of_case = replace(of_case, only_float32=self.rounded)
                    self._asked(process, of_case, work, told, [])
                    if runs and self.crashed:
                        raise UserError(Kind.PORT_ENDS(error=self.crashed))
                    if runs or self.crashed:
                        break
                else:
                    return  # it runs in all of them: what is wrong is no edit's matter
                candidates = of_lines(Source(source), candidates, self.ran)
                ask = partial(self._asked, process, of_case, work, told)
                for tried in self._in_batches(step, candidates, ask):
                    all_tried += tried
                    tried = [one for one in tried if one.near]
                    found += tried
                    # What is rounded is never near: the best are tried at once.
                    waited = bool(right)
                    right += [
                        o
                        for o in tried
                        if o.away == 0 and (self.rounded or o.origin <= near or not o.off)
                    ]
                    small = any(one.edit.changed(source) < SMALL for one in right)
                    if right and (small or waited or self.rounded):
                        yield ranked(right, source, self.rounded)
                        found = [one for one in found if one not in right]
                        right = []
                yield ranked(found, source, self.rounded)

    def _in_batches(
        self, step: Step, candidates: Iterator[Edit], ask: Callable[[list[Edit]], list[Tried]]
    ) -> Iterator[list[Tried]]:
        """Try edits, as many at once as take BATCH_S, until the time is up; yield their effects."""
        size = BATCH
        while some := list(itertools.islice(candidates, size)):
            began = time.monotonic()
            tried = ask(some)
            self.on_progress(Kind.EDITS_TRIED(step=step.number, count=self.tried))
            each_s = (time.monotonic() - began) / len(some)
            size = max(1, min(2 * size, MOST, int(BATCH_S / each_s)))
            yield tried
            if time.monotonic() > self.until:
                return

    def _reference(self, step: Step, python: str, run: RunRequest, work: Path) -> str:
        """Run a step's torch side; the log by whose values edits are judged."""
        with WorkerProcess(python, step.module("torch"), None) as torch:
            answered(torch, run, work / "request_torch.json")
        files, stem = ResultFolder(work), step.judged[0]
        log = files.log(stem, "torch", RunKind.PLAIN if self.rounded else RunKind.FLOAT64)
        if not log.is_file():
            raise UserError(Kind.FLOAT64_MISSING())
        if files.choices(stem).is_file():
            shutil.copyfile(files.choices(stem), files.choices(STEM))
        return str(log)

    def _asked(self, process, run, work: Path, told: dict, some: list[Edit]) -> list[Tried]:
        """Run edits; return what those that run come to, with `told` as trial.py says."""
        tried = work / "tried.jsonl"
        tried.unlink(missing_ok=True)
        spans = [[one.start, one.end, one.new.decode()] for one in some]
        write_json(work / "edits.json", {**told, "edits": spans})
        for _ in range(len(some) + 1):  # an edit that ends the process is begun, and left out then
            before = tried.read_text(encoding="utf-8") if tried.is_file() else ""
            process.ask(run, work / "request_paddle.json")
            failure = process.failure()
            if failure is None:
                break
            now = tried.read_text(encoding="utf-8") if tried.is_file() else ""
            if now == before or '"number": -1' not in now:
                raise UserError(failure.reason)
        lines = list(map(json.loads, tried.read_text(encoding="utf-8").splitlines()))
        before = next((line for line in lines if line.get("number") == -1), {"origin": 0.0})
        self.crashed, self.off = before.get("error", ""), before.get("off", 0)
        usual, self.ran = before.get("origin", FARTHEST), set(before.get("lines", self.ran))
        self.files |= set(map(Path, before.get("files", ())))
        factor = 1.0 if self.rounded else NEARER
        self.tried += len(some)
        return [
            # The origin may have another shape here, or be right in this run: then the others say.
            Tried(
                some[line["number"]],
                *(line[name] for name in FAILED),
                near=line["origin"] * factor < usual
                or not OFF < usual < FARTHEST
                and bool(line["nearer"]),
                failed="error" in line,
            )
            for line in (FAILED | line for line in lines)
            if line.get("number", -1) >= 0
        ]

    def original(self, path: Path) -> Path:
        """The user's file, or the package's, that a copy is of."""
        copies = {self.copy: self.pair.folder, **{own: at for at, own in self.packages.items()}}
        of = next(of / path.relative_to(c) for c, of in copies.items() if path.is_relative_to(c))
        return of.resolve()

    def _mended_by(self, step: Step, row: str, path: Path, source: bytes, group) -> Mended:
        edit = group[0].edit
        file, own = self.original(path), self.pair.folder
        file = file.relative_to(own) if file.is_relative_to(own) else file
        place = f"{file}:{source[: edit.start].count(NEWLINE) + 1}"
        old, new = source[edit.start : edit.end].decode(), edit.new.decode()
        lines = dict.fromkeys(line_of(source, one.edit) for one in group[:PROOFS])
        return Mended(step.number, row, place, edit.kind, old, new, [*lines][1:])

    def as_json(self) -> dict[str, object]:
        """See the module's docstring."""
        return {
            "schema": SCHEMA,
            "model": self.pair.name,
            "pair": str(self.pair.folder),
            "red": [list(one) for one in self.red],
            "tried": self.tried,
            "edits": [asdict(one) for one in self.mended],
            "proven": self.proven,
            "diff": self.diff(),
            "seconds": round(self.seconds, 1),
        }


def allowed_of(rows: Sequence[Row]) -> dict[str, float]:
    """Return what a check allows its rows, a part of their size, for edits to be judged by."""
    return {
        row.key: row.allowed / row.scale
        for row in rows
        if row.allowed and row.scale and row.allowed < row.scale * FARTHEST
    }


def both(tried: Sequence[Tried], source: bytes) -> Iterator[Edit]:
    """Yield two edits as one: each of the nearest with every other one elsewhere.

    Half of a mend may bring the origin little nearer; what brings it nearer by more comes first.
    """
    others = [one.edit for one in tried]  # as they are now: what is tried next comes behind
    near = ranked([one for one in tried if one.near], source)
    nearest = [one.edit for group in (*near, *ranked(tried, source)) for one in group]
    for one in list(dict.fromkeys(nearest))[:PROOFS]:
        for other in others:
            if one is not other and (one.end <= other.start or other.end <= one.start):
                yield joined([one, other], source)


def in_order(candidates: Iterator[Edit]) -> Iterator[list[list[Tried]]]:
    """One edit behind the other, where nothing but the check says what it is good for."""
    for edit in candidates:
        yield [[Tried(edit, 0.0, 0, 0, 0.0, 0)]]


def ranked(found: Sequence[Tried], source: bytes, rounded: bool = False) -> list[list[Tried]]:
    """Return the edits that take nothing away, the nearest first; in a list those that are alike.

    Of these the small ones first, and of small ones what the reference has.

    rounded     float64 does not show it, and chance has a part in all: what the reference has
    """

    def order(one: Tried) -> tuple:
        changed = one.edit.changed(source)
        size = 0 if rounded else changed // SMALL
        return -round(one.digits / ALIKE), size, KINDS.index(one.edit.kind), changed

    kept = sorted((one for one in found if one.away == 0), key=order)
    groups: list[list[Tried]] = []
    for one in kept:
        if groups and abs(groups[-1][0].digits - one.digits) <= ALIKE:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def is_better(was: Red, now: Result) -> bool:
    """Return whether a check has got nearer to green: what was red agrees, no less than did."""
    if now.exit_code == 0:
        return True
    agreeing = {row.key for row in was.before.rows if row.verdict in AGREEING}
    red = {row.key for row in now.rows if row.verdict in FAILING}
    fewer = len(red) < _count_of_red(was.before)
    return was.row not in red and not red & agreeing and fewer


def _count_of_red(result: Result) -> int:
    return sum(row.verdict in FAILING for row in result.rows) if result.exit_code else 0


def reference_of(path: Path, places: Places) -> Path | None:
    """The reference's file for a file of the port: the one beside it, or where the finding is."""
    beside = path.with_name(path.name.replace("paddle", "torch"))
    at, line = places.get("torch", (Path(), 0))
    return next((p for p in (beside, *([at] if line else [])) if p != path and p.is_file()), None)


def candidates_of(
    path: Path,
    lines: Sequence[int],
    reference: Path | None,
    rounded: bool = False,
    numbers: Sequence[tuple[float, float]] = (),
) -> Iterator[Edit]:
    """The edits of a file, those of some lines first, then the nearest; each once, all code.

    rounded     float64 does not show what is looked for: all of the reference's come first
    numbers     (the lines', the reference's), where a red check has seen that they differ
    """
    source = Source(path.read_bytes())
    other = Source(reference.read_bytes()) if reference else None
    theirs = dict([*other.functions(), *other.constants()]) if other else {}
    functions = [(n, node) for n, node in source.functions() if isinstance(node, ast.FunctionDef)]
    constants = list(source.constants())
    if path.name == CASE:  # all else is what both sides are given
        functions, constants = ([o for o in of if o[0] in MAPPING] for of in (functions, constants))
    holds = [n for n, node in functions if any(node.lineno <= k <= node.end_lineno for k in lines)]
    classes = {name.rpartition(".")[0] for name in holds}

    def distance(name: str) -> int:
        return 0 if name in holds else 1 if name.rpartition(".")[0] in classes else 2

    functions.sort(key=lambda one: distance(one[0]))
    marked = source.at(lines)
    seen: set[tuple] = set()
    found: list[tuple[int, int, Edit]] = []  # turn, length
    for edit in of_numbers(source, marked, numbers):
        seen.add((edit.start, edit.end, edit.new))
        found.append((OF_LINE, 0, edit))
    for name, node in [*functions, *constants]:
        own = theirs.get(name)
        near = distance(name)
        some = list(nearer(source, node, own)) if own is not None else []
        if path.name == CASE:
            some += of_mapping(source, node)
        else:
            some += edits(source, node, Values.of(*([own] if own is not None else [])))
        for edit in some:
            key = edit.start, edit.end, edit.new
            if key not in seen:
                seen.add(key)
                turn = _turn(source, edit, near, rounded)
                if any(_is_of(edit, *span) for span in marked):
                    turn = OF_LINE + KINDS.index(edit.kind)
                found.append((turn, edit.end - edit.start, edit))
    found += _in_copies(source, found)
    found.sort(key=lambda one: (one[0], one[1], one[2].start))
    yield from other_code(source, (edit for _, _, edit in found))


def other_code(source: Source, some: Iterable[Edit]) -> Iterator[Edit]:
    """Yield those edits that make code of a source, another tree than those before them."""
    tops = [source.span(node) for node in source.tree.body]  # parsed alone: a file may be long
    as_it_is = [source.tree.body, *([node] for node in source.tree.body)]
    trees = {ast.dump(ast.Module(body, [])) for body in as_it_is}
    for edit in some:
        top = next((t for t in tops if t[0] <= edit.start and edit.end <= t[1]), None)
        start, end = top or (0, len(source.text))
        here = Edit(edit.start - start, edit.end - start, edit.new, edit.kind)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.dump(ast.parse(here.applied(source.text[start:end])))
        except (SyntaxError, ValueError):
            continue
        if tree not in trees:
            trees.add(tree)
            yield edit


def _in_copies(
    source: Source, found: Sequence[tuple[int, int, Edit]]
) -> list[tuple[int, int, Edit]]:
    """Join the same edit of several places into one; its turn is the first one's.

    That is, of all layers that are built by the same words, and of all calls that lack a keyword,
    or have it: what is not known of its default is not known anywhere.
    """
    layers = [
        source.span(one)
        for one in ast.walk(source.tree)
        if isinstance(one, ast.Call) and ast.unparse(one.func).rpartition(".")[2][:1].isupper()
    ]
    groups: dict[tuple, dict[Edit, tuple[int, int]]] = {}
    for *when, edit in found:
        around = [span for span in layers if span[0] <= edit.start and edit.end <= span[1]]
        if around:
            start, end = max(around)
            key = source.text[start:end], edit.start - start, edit.end - start, edit.new
            groups.setdefault(key, {})[edit] = when
        least = replace(edit.least(source.text), kind="setting")
        old = source.text[least.start : least.end]
        if KEYWORD.fullmatch(old + least.new) and not (old and least.new):
            groups.setdefault((old, least.new), {}).setdefault(least, when)
    several = [group for group in groups.values() if len(group) > 1]
    return [(*min(group.values()), joined(list(group), source.text)) for group in several]


def of_lines(source: Source, candidates: Iterator[Edit], ran: AbstractSet[int]) -> Iterator[Edit]:
    """Yield the edits that are of lines that ran."""
    spans = [
        (*source.span(one), one.lineno, getattr(one, "body", [one])[0].lineno, one.end_lineno)
        for one in ast.walk(source.tree)
        if isinstance(one, ast.stmt)
    ]
    for edit in candidates:
        around = [s for s in spans if s[0] <= edit.start and edit.end <= s[1]]
        if not around:  # the module's own
            yield edit
            continue
        _, _, first, body, last = min(around, key=lambda span: span[1] - span[0])
        own = range(first, (body if body > first else last + 1))
        start, end = (source.text.count(NEWLINE, 0, at) + 1 for at in (edit.start, edit.end))
        if not ran.isdisjoint(own) or not ran.isdisjoint(range(start, end + 1)):
            yield edit


def _turn(source: Source, edit: Edit, near: int, rounded: bool) -> int:
    """Return when an edit is tried: the reference's few first; then the nearest, the commonest.

    Several lines of the reference's come behind what a small edit of the same class may do.
    """
    kind = KINDS.index(edit.kind)
    lines = edit.new.strip() + source.text[edit.start : edit.end].strip()
    if kind == 0 and (rounded or NEWLINE not in lines):
        return near
    return (kind or 2 * KINDS.index("operator")) + 3 * near


def _is_of(edit: Edit, start: int, end: int) -> bool:
    """Return whether an edit is of a statement alone, or puts the reference's lines around it."""
    around = edit.kind == "reference" and edit.start < end and start < edit.end
    return around or start <= edit.start and edit.end <= end


def line_of(source: bytes, edit: Edit) -> str:
    """The line that an edit makes or leaves out, as a diff has it; of several the first."""
    text, mark = source[edit.start : edit.end], "- "
    if edit.new:
        text, mark = edit.applied(source), ""
        end = text.find(NEWLINE, edit.start + len(edit.new))
        text = text[text.rfind(NEWLINE, 0, edit.start) + 1 : end if end >= 0 else None]
    first, *more = text.decode().strip().splitlines()
    return f"{mark}{first}{' …' if more else ''}"


def _show(search: Search) -> None:
    """Print what was red, the edits, and whether they are proven."""
    if not search.red:
        nothing = Kind.NOTHING_RED_ANYWHERE if search.all_steps else Kind.NOTHING_RED
        report.say(nothing(model=search.pair.name))
        return
    for one in search.mended:
        report.say(Kind.EDIT_MENDS(red=_red(one.step, one.row), place=one.place))
        if one.doubtful:
            report.say(Kind.EDIT_DOUBTFUL())
        for other in one.alike:
            report.say(Kind.EDIT_ALIKE(line=other))
    if search.proven:
        green = Kind.GREEN_ALL() if search.all_steps else Kind.GREEN_STEPS()
        report.say(Kind.PROVEN(green=green, count=search.tried))
    elif search.green:
        report.say(Kind.PROVEN_NOT(count=search.tried))
    else:
        report.say(Kind.MEND_MISSING(red=_red(*search.red[-1]), why=search.told))
    for line in search.diff().splitlines():
        report.say(line)


def _red(step: int, row: str) -> str:
    return Kind.RED_ROW(step=step, row=row) if row else Kind.RED_STEP(step=step)


def _write(search: Search) -> None:
    """Put the edits into the pair's files; each old one stays beside its new one."""
    for path, new in search.written.items():
        if path in search.installed:
            report.say(Kind.EDIT_NOT_WRITTEN(path=shown(path)))
            continue
        shutil.copyfile(path, path.with_name(f"{path.name}.orig"))
        with whole(path) as temporary:
            temporary.write_bytes(new)
        report.say(Kind.EDIT_WRITTEN(path=shown(path), name=path.name))
