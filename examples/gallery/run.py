"""One pair from its line to its verdicts: twincheck new, edits by hand, the checks, and the mends.

What came of it is kept in the cache under a key of all that it depends on, so that a gallery that
was stopped goes on where it was.
"""

import dataclasses
import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np

from twincheck.common.check.steps import Step
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.report.findings import place_of
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.processes import environment
from twincheck.common.verdict.inside import SHAPE
from twincheck.common.verdict.row import SEVERITY, worst
from twincheck.examples.gallery import environments
from twincheck.examples.gallery.table import HERE, Edit, Finding, Line, sha256
from twincheck.extras.shared.jobs import program
from twincheck.extras.shared.made_by import commit
from twincheck.faults.warm import Interpreters
from twincheck.step1_forward.step import STEP as FORWARD
from twincheck.step3_loss.step import STEP as LOSS
from twincheck.step4_backward.step import STEP as BACKWARD

STEPS = (FORWARD, LOSS, BACKWARD)
NEW = ("-m", "twincheck", "new")
AS_PUBLISHED = "as_published"
LONGEST = 300  # characters of a sentence that is kept


@dataclass
class Check:
    """The outcome of one check of a pair."""

    step: int
    train: bool
    status: int  # 0 aligned, 1 not, 2 could not be compared
    verdict: str = "INVALID"
    counts: dict[str, int] = field(default_factory=dict)
    first: str = ""  # the first row that is not aligned
    said: str = ""  # the check's own sentence, where it is not aligned
    block: str = ""  # all that it says of that row, without lines of sources
    places: dict[str, str] = field(default_factory=dict)  # side -> file:line of that row
    reshaped: str = ""  # the first value inside that has another shape, and
    reshaped_places: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class Outcome:
    """The outcome of one run of a pair, with its mends or without."""

    said: str = ""  # why twincheck new ended badly
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def status(self) -> int:
        """The worst exit status; 2 where there is no pair."""
        return 2 if self.said else max((check.status for check in self.checks), default=2)

    @property
    def verdict(self) -> str:
        """The worst verdict of all checks."""
        return "INVALID" if self.said else worst(check.verdict for check in self.checks)


@dataclass
class Result:
    """All that is kept of a pair."""

    name: str
    key: str
    line: str
    versions: dict[str, str]  # side -> package and version
    by_hand: list[str]
    why: str
    as_published: Outcome
    mended: Outcome | None = None  # None: nothing was to be mended
    checkout: str = ""  # the commit whose programs checked it


@dataclass(frozen=True)
class Gallery:
    """The settings that every pair's run needs to know.

    cache    where environments, pairs, logs and results are
    steps    those that are run
    """

    cache: Path
    findings: tuple[Finding, ...] = ()
    steps: tuple[int, ...] = tuple(step.number for step in STEPS)

    def of(self, line: Line) -> list[Finding]:
        """The findings about a pair."""
        return [finding for finding in self.findings if line.name in finding.pairs]

    def kept(self, line: Line) -> Result | None:
        """Return the stored result of a pair, if nothing that it depends on has changed since.

        What could not be compared is tried again: memory may have run out.
        """
        result = read_result(self.cache / "results" / f"{line.name}.json")
        if result is None or result.key != self.key(line):
            return None
        outcomes = (result.as_published, result.mended or result.as_published)
        return None if 2 in [outcome.status for outcome in outcomes] else result

    def key(self, line: Line) -> str:
        """A hash of all that a pair's result depends on."""
        pins = {name: environments.place(name, self.cache).name for name in line.environments}
        mends = [(f.mends_of(line.name), f.arguments) for f in self.of(line)]
        return sha256(line.words, line.by_hand, pins, mends, sorted(self.steps), sources())

    def run(self, line: Line) -> Result:
        """Run a pair, as published and with its mends, and keep what came of it."""
        words = line.command(self.python_of, partial(environments.source, cache=self.cache))
        result = Result(
            name=line.name,
            key=self.key(line),
            line=shlex.join([line.name, *line.words]),
            versions={side: _version(line, side) for side in SIDES},
            by_hand=list(line.by_hand.kinds),
            why=line.by_hand.why,
            as_published=self._outcome(line, words, line.by_hand.edits, AS_PUBLISHED),
            checkout=checkout(),
        )
        found = self.of(line)
        mends = [mend for finding in found for mend in finding.mends_of(line.name)]
        more = [word for finding in found for word in shlex.split(finding.arguments)]
        if result.as_published.status != 0 and (mends or more):
            words = self._with_mends(line, [*words, *more], mends)
            own = [mend for mend in mends if mend.side == "pair"]
            result.mended = self._outcome(line, words, (*line.by_hand.edits, *own), "mended")
        write_result(self.cache / "results" / f"{line.name}.json", result)
        return result

    def python_of(self, name: str) -> str:
        """The Python of an environment."""
        return environments.python(environments.place(name, self.cache))

    def _with_mends(self, line: Line, words: list[str], mends: Sequence[Edit]) -> list[str]:
        """The words with Pythons whose packages are mended."""
        for side in SIDES:
            edits = [mend for mend in mends if mend.side == side]
            if edits:
                given = line.option(f"--{side}-python").strip("{}")
                target = self.cache / "mended" / f"{line.name}-{side}"
                folder = environments.mended(environments.place(given, self.cache), edits, target)
                words = [*words, f"--{side}-python", environments.python(folder)]
        return words

    def _outcome(
        self, line: Line, words: Sequence[str], edits: Sequence[Edit], label: str
    ) -> Outcome:
        """Set a pair up and check it; its files and logs stay in the cache.

        Its processes are forks of one that has imported its framework (faults/warm).
        """
        with ExitStack() as stack:
            pythons = {sys.executable: ("check", *SIDES)}
            pythons |= dict.fromkeys(_pythons(words)[1::2], SIDES)
            warm = {
                python: stack.enter_context(Interpreters(python=python, names=names))
                for python, names in pythons.items()
            }
            words = [warm[word].python if word in warm else word for word in words]
            return self._checked(line, words, edits, label, list(warm.values()))

    def _checked(
        self,
        line: Line,
        words: Sequence[str],
        edits: Sequence[Edit],
        label: str,
        warm: Sequence[Interpreters],
    ) -> Outcome:
        base = self.cache / "pairs" / line.name / label
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        outcome, pair = Outcome(), base / line.name
        new = [*NEW, line.name, *words, "--no-check", "--folder", str(base)]
        status, seconds, cpu_seconds = self._python(new, base / "new.log", warm)
        outcome.seconds, outcome.cpu_seconds = seconds, cpu_seconds
        if not (pair / "case.py").is_file() or (status != 0 and not edits):
            outcome.said = _last_words(base / "new.log") or f"new: status {status}"
            return outcome
        for edit in edits:
            path = pair / edit.file
            if not path.is_file():
                raise UserError(f"{line.name}: an edit is of {edit.file}, which is not there")
            path.write_text(edit.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
        pythons = _pythons(words)
        # A red pair with mends goes through all steps with them; as it is, it is red already.
        last = 0 if label == AS_PUBLISHED and any(f.changes for f in self.of(line)) else 1
        for step in STEPS:
            if step.number in self.steps and all(check.status <= last for check in outcome.checks):
                outcome.checks.append(self._check(step, pair, pythons, base, warm))
        if all(check.status != 2 for check in outcome.checks):
            first = self._check(FORWARD, pair, pythons, base, warm, train=True)
            outcome.checks.append(first)
            goes_on = BACKWARD.number in self.steps and first.status <= last
            if goes_on and _differs_in_train_mode(base):
                train = self._check(BACKWARD, pair, pythons, base, warm, train=True)
                outcome.checks.append(train)
        outcome.seconds += sum(check.seconds for check in outcome.checks)
        outcome.cpu_seconds += sum(check.cpu_seconds for check in outcome.checks)
        return outcome

    def _check(
        self,
        step: Step,
        pair: Path,
        pythons: Sequence[str],
        base: Path,
        warm: Sequence[Interpreters],
        train: bool = False,
    ) -> Check:
        out = base / ("train" if train else "eval")
        rows, log = out / f"step{step.number}.json", out / f"step{step.number}.log"
        out.mkdir(exist_ok=True)
        command = ["-m", "twincheck", step.command, "--model", str(pair), "--out", str(out)]
        command += [
            "--json",
            str(rows),
            "--no-report",
            *pythons,
            "--mode",
            "train" if train else "eval",
        ]
        status, seconds, cpu_seconds = self._python(command, log, warm)
        check = Check(step.number, train, status, seconds=seconds, cpu_seconds=cpu_seconds)
        if status in (0, 1) and rows.is_file():
            report = json.loads(rows.read_text())
            verdicts = [row["verdict"] for row in report["rows"]]
            check.verdict = report["verdict"]
            check.counts = {name: verdicts.count(name) for name in SEVERITY if name in verdicts}
            check.first = report["first_diverged"] or ""
            if check.first:
                folder = ResultFolder(out / step.name / pair.name)
                check.places = _places(folder, step, check.first)
                check.said = _shorter(headline(log.read_text()))
                check.block = _shorter(block(log.read_text()))
                shapes = (row["key"] for row in report["rows"] if row["excuse"] == SHAPE)
                check.reshaped = next(shapes, "")
                if check.reshaped:
                    check.reshaped_places = _places(folder, step, check.reshaped)
        else:
            check.status, check.said = 2, _last_words(log)
        return check

    def _python(
        self, words: Sequence[str], log: Path, warm: Sequence[Interpreters]
    ) -> tuple[int, float, float]:
        """Run this Python in the checkout, its words into a file: status, seconds, CPU seconds.

        warm   what its processes are forks of; the first stands for this Python
        """
        before = sum(each.cpu_seconds() for each in warm)
        began = time.monotonic()
        with open(log, "w") as file:
            status = program([warm[0].python, *words], file, env=environment(), cwd=ROOT)
        computed = sum(each.cpu_seconds() for each in warm) - before
        return status, time.monotonic() - began, computed


def _pythons(words: Sequence[str]) -> list[str]:
    """--torch-python and --paddle-python with the last value of each."""
    found = dict(zip(words, words[1:], strict=False))
    names = [f"--{side}-python" for side in SIDES]
    return [word for name in names if name in found for word in (name, found[name])]


def _version(line: Line, side: str) -> str:
    """The package that a side's model is from, and its version."""
    spec = line.option(f"--{side}")
    published = re.match(r"\{(.*)@(.{7}).*\}", spec)
    if published:
        return f"{published[1]} at {published[2]}"
    name = line.option(f"--{side}-python").strip("{}")
    pins = environments.versions(name) if name else {}
    package = spec.partition(":")[0].partition(".")[0]
    if spec == "paconvert":
        package = "paconvert"
    framework = {"torch": "torch", "paddle": "paddlepaddle"}[side]
    same = {pin.lower().replace("-", "_"): pin for pin in pins}
    names = [same.get(package.lower(), ""), framework]
    told = [f"{pin} {pins[pin]}" for pin in dict.fromkeys(names) if pin in pins]
    return ", ".join(told) or package


def _differs_in_train_mode(base: Path) -> bool:
    """Return whether train mode is another function: torch gave other values in step 1."""
    folders = (next((base / mode / FORWARD.name).iterdir()) for mode in ("eval", "train"))
    paths = (ResultFolder(folder).log(FORWARD.judged[0], SIDES[0]) for folder in folders)
    before, after = (read_log(path) for path in paths)
    with before, after:
        return set(before) != set(after) or any(
            not np.array_equal(before[key], after[key], equal_nan=before[key].dtype.kind == "f")
            for key in before
        )


def _sidecars(folder: ResultFolder, step: Step) -> dict[str, Sidecar]:
    return {side: sidecar_of(folder.log(step.judged[0], side)) for side in SIDES}


def _places(folder: ResultFolder, step: Step, key: str) -> dict[str, str]:
    """Side -> the line that computed a row, from where the packages or the pair are."""
    sidecars = _sidecars(folder, step)
    return {side: _short(place_of(sidecars[side].places, key)) for side in SIDES}


# Where the folders end that are one machine's: an environment's packages; in the cache a pair, and
# a commit's files.
_BEFORE = r"/(?:site-packages|(?:pairs|sources)/[^/\s]+/[^/\s]+)/"


def _short(place: str) -> str:
    """A place without the environment's or the cache's folder."""
    return re.sub(f".*{_BEFORE}", "", place)


def _shorter(sentence: str) -> str:
    """A sentence whose paths begin like _short's, and which names no log of this machine."""
    sentence = re.sub(r" \(in full: [^)]*\)?", "", sentence)
    return re.sub(rf"(?<=[\s(])/\S*?{_BEFORE}", "", sentence)


def behind_table(printed: str) -> list[str]:
    """Return the lines that a check has printed behind its table; all where it printed none."""
    lines = [line.rstrip() for line in printed.splitlines()]
    last = max((i for i, line in enumerate(lines) if line.startswith("└")), default=-1)
    return lines[last + 1 :]


def headline(printed: str) -> str:
    """The first sentence that a red check prints behind its table, without step and name."""
    told = next(filter(None, map(str.strip, behind_table(printed))), "")
    return re.sub(r"^step \d[^:]*: ", "", told)


def block(printed: str) -> str:
    """Return what a red check prints behind its table of its first row, but lines of sources."""
    behind = behind_table(printed)
    ended = (i for i, line in enumerate(behind) if re.match(r"  (also|note|what to type)\b", line))
    lines = behind[: next(ended, len(behind))]
    kept = [
        line for line in lines if line.strip() and not re.match(r"\s{6,}(>\s+)?\d+(\s|$)", line)
    ]
    return "\n".join(kept)


def _last_words(log: Path) -> str:
    """The sentence that a program ended with."""
    lines = [line.strip() for line in log.read_text().splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    said = _shorter((errors or lines or [""])[-1].removeprefix("error: "))
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} …"


@cache
def sources() -> str:
    """A hash of the checkout's programs, but for what only writes pages."""
    paths = [*ROOT.glob("common/**/*.py"), *ROOT.glob("step*/**/*.py"), *HERE.glob("*.py")]
    names = sorted(str(path.relative_to(ROOT)) for path in paths if path != HERE / "page.py")
    return sha256([(name, file_sha256(ROOT / name)) for name in names])


@cache
def checkout() -> str:
    """The checkout's commit, with a + where files were changed since."""
    found = commit()
    return f"{found['id']:.7}{'+' if found.get('changed') else ''}"


def write_result(path: Path, result: Result) -> None:
    """Keep a result, whole or not at all."""
    write_text(path, json.dumps(dataclasses.asdict(result), indent=1) + "\n")


def read_result(path: Path) -> Result | None:
    """A result that was kept; None where there is none that this version can read."""
    try:
        content = json.loads(path.read_text())
        content["as_published"] = _read_outcome(content["as_published"])
        content["mended"] = content["mended"] and _read_outcome(content["mended"])
        return Result(**content)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_outcome(content: Mapping) -> Outcome:
    return Outcome(**{**content, "checks": [Check(**check) for check in content["checks"]]})
