"""Write a small program that shows what differs in a red check, and an issue about it.

    twincheck issue DIR              of the first red step among 1, 3 and 4
    twincheck issue DIR --lang zh    the same; the issue is in Chinese

Both sides run once more, and each operator that they call is recorded.  What agrees is given to
both; what is left are the few operators between the last values that agree and the first one that
does not.  They become a program of at most 60 lines, with NumPy, torch and Paddle alone, which
prints both sides' values in float32 and in float64.  It is run, and kept only if it shows the
difference.

It leaves in DIR/log/issue: reproduction.py, which ends with status 1 until the sides agree, and
then with 0; issue.md, the text; arrays.npz if random values do not show the difference.

Exit status: 0 nothing is red, or a program shows it; 1 none does; 2 it could not be tried.
"""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check.result import Result, shown
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.logs.key import Key
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair, python_for
from twincheck.common.report import terminal as report
from twincheck.common.report.findings import NO_LINE, Finding, findings_of
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language, of_pairs
from twincheck.common.system.files import write_text
from twincheck.common.system.folders import remove_abandoned, working_folder
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import interpreter
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import guarded
from twincheck.common.verdict.row import AGREEING, FAILING
from twincheck.extras.issue import Kind
from twincheck.extras.issue.program import (
    LINES,
    NoProgram,
    Reproduction,
    TooLong,
    reproductions,
    text_of,
)
from twincheck.extras.issue.taken import STEM, WANTED
from twincheck.extras.issue.tape import Tape
from twincheck.extras.shared.jobs import captured
from twincheck.extras.shared.sides import asked, case_of, folder_of, function_of, only_pair
from twincheck.extras.shared.steps import STEPS, checked

PROGRAM, TEXT, ARRAYS = "reproduction.py", "issue.md", "arrays.npz"
LEFT = (PROGRAM, ARRAYS, TEXT)
CAUSES = 3  # of a red check, that a program is looked for in turn, as those of a mend
SEEDS = 3  # of drawn arrays, before the values themselves are stored
PATIENCE_S = 120  # that a program may take


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "issue")
    parser.take("model", "out", "preset", "mode", "seed", "weights")
    given = parser.take("torch-python", "paddle-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _issue(given))


def _issue(given: Namespace) -> int:
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODELS_NOT_ONE(command=to_type("issue", "DIR")))
    options = replace(options, paddle_python=python_for("paddle", options.paddle_python, [pair]))
    base = folder_of(options, "issue")
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    shows = ""
    with report.progress() as on_progress, working_folder(base) as work:
        told = replace(options, no_report=True, json=None, out=work / "check")
        found = _first_red(pair, told, on_progress)
        if found is None:
            _put(None, base)
            report.say(Kind.NOTHING_RED(model=pair.name))
            return 0
        step, result = found
        lines: list[str] = []
        for finding in findings_of(result)[:CAUSES]:
            lines.append(Kind.CAUSE_OF_STEP(step=step.number, cause=finding.headline))
            try:
                shows = _program(pair, options, work, step, result, finding, on_progress)
            except NoProgram as error:
                lines.append(Kind.PROGRAM_MISSING(why=str(error)))
            else:
                break
        if shows:
            title = Kind.CAUSE_OF_MODEL(model=pair.name, cause=finding.headline)
            places = {side: _place(finding, side, pair) for side in SIDES}
            exact, versions = _is_exact(finding), _versions(step, result)
            mended = _mended(base, step, finding)
            text = issue(title, exact, places, versions, work, shows, mended)
            write_text(work / TEXT, text)
        _put(work if shows else None, base)
    for line in lines:
        report.say(line)
    if not shows:
        return 1
    for line in shows.splitlines():
        report.say(f"  {line}")
    count = len((base / PROGRAM).read_text(encoding="utf-8").splitlines())
    report.say(Kind.PROGRAM_WRITTEN(count=count, path=shown(base / PROGRAM)))
    report.say(Kind.ISSUE_WRITTEN(path=shown(base / TEXT)))
    return 0


def _program(
    pair: Pair,
    options: CheckOptions,
    work: Path,
    step: Step,
    result: Result,
    finding: Finding,
    on_progress,
) -> str:
    """Write the program of one cause; what it prints.  Raises NoProgram where none shows it."""
    tapes = _tapes(pair, options, work, step, result, finding)
    about = tapes, Key.parse(finding.row.key).is_gradient, _is_exact(finding)
    said = Kind.CAUSE_OF_MODEL(model=pair.name, cause=finding.sentence)
    on_progress(Kind.PROGRAM_RUNS())
    try:
        return _shown_by(reproductions(*about), work, said, options)
    except TooLong:
        return _shown_by(reproductions(*about, loose=True), work, said, options)


def _first_red(pair: Pair, options: CheckOptions, on_progress) -> tuple[Step, Result] | None:
    """The first step that is red, and what its check says; raises UserError where it cannot run."""
    with Processes() as processes:
        for step in STEPS:
            if step.why_not(pair):
                continue
            result = checked(step, options, on_progress, processes)
            if result.exit_code:
                return step, result
    return None


def _is_exact(finding: Finding) -> bool:
    """Return whether float64 shows the finding too."""
    return finding.row.verdict != "PRECISION"


def _value_of(key: str) -> str:
    """A row's key; of a gradient's row that of what it is taken at."""
    return str(replace(Key.parse(key), kind="")) if Key.parse(key).is_gradient else key


def _tapes(
    pair: Pair, options: CheckOptions, work: Path, step: Step, result: Result, finding: Finding
) -> dict[str, Tape]:
    """Record what both sides compute behind what agrees: a tape for each."""
    origin = finding.row.key
    gradient = Key.parse(origin).is_gradient
    case = Key.parse(origin, result.cases).case
    red = [origin, *(row.key for row in result.rows if row.verdict in FAILING)]
    red = [key for key in red if Key.parse(key, result.cases).case == case]
    lost = [row.key for row in result.rows if row.verdict == "INVALID"]
    told = {
        "step": function_of(step, origin),
        "origins": [_value_of(key) for key in red if Key.parse(key).is_gradient == gradient],
        "gradient": gradient,
        "given": [row.key for row in result.rows if row.verdict in AGREEING],
        "lost": [_value_of(key) for key in lost] if gradient else [],
    }
    with asked(pair, options, work, keep="all") as one:
        one = replace(one, run=replace(one.run, cases=case_of(origin, pair, one.run)))
        with one.sides("twincheck.extras.issue.taken", STEM) as sides:
            sides.folder.mkdir(parents=True, exist_ok=True)
            write_json(sides.folder / WANTED, told)
            sides.answer("float64")
            if not (sides.exact and _is_exact(finding)):
                sides.answer("float32")
            if not sides.exact:  # a program is written by its values
                why = next(filter(None, (sides.sidecar(side).no_float64 for side in SIDES)), "")
                raise UserError(Kind.FLOAT64_MISSING(why=why))
            stems = {side: sides.folder / f"tape_{side}" for side in SIDES}
            short = [side for side, stem in stems.items() if not stem.with_suffix(".npz").is_file()]
            if short:
                raise NoProgram(Kind.OPERATORS_UNSEEN(side=short[0]))
            return {side: Tape.read(stem) for side, stem in stems.items()}


def _versions(step: Step, result: Result) -> dict[str, str]:
    logs = ResultFolder(result.folder)
    return {side: sidecar_of(logs.log(step.judged[0], side)).framework_version for side in SIDES}


def _shown_by(some: Iterable[Reproduction], work: Path, title: str, options: CheckOptions) -> str:
    """Write the program that shows the difference, with drawn arrays if they do; what it prints."""
    why = NoProgram(Kind.AROUND_THEM())
    for one in some:
        count = len(text_of(one, title, 0, ARRAYS).splitlines())
        if count > LINES:
            why = TooLong(Kind.PROGRAM_TOO_LONG(count=count, most=LINES))
            continue
        if not _computes_the_same(one, work, options):
            why = NoProgram(Kind.NOT_AS_RECORDED())
            continue
        for seed in (*(range(SEEDS) if one.may_be_drawn else ()), None):
            write_text(
                work / PROGRAM, text_of(one, title, seed or 0, ARRAYS if seed is None else "")
            )
            (work / ARRAYS).unlink(missing_ok=True)
            if seed is None:
                np.savez_compressed(work / ARRAYS, **one.stored)
            shows, failed = _run(work, options)
            if shows:
                return shows
            why = NoProgram(failed) if failed else why
    raise why


def _computes_the_same(one: Reproduction, work: Path, options: CheckOptions) -> bool:
    """Return whether the program, given what was recorded, computes what was recorded."""
    told = {f"by_{side}": values for side, values in one.wanted.items()}
    np.savez(work / ARRAYS, **one.stored, **told)
    write_text(work / PROGRAM, text_of(one, "", 0, ARRAYS, again=True))
    return not _run(work, options)[1]


def _run(work: Path, options: CheckOptions) -> tuple[str, str]:
    """Run the program; return what it prints of a difference, and why where it cannot run."""
    for python in dict.fromkeys((interpreter("paddle", options.paddle_python), sys.executable)):
        try:
            done = captured([python, "-W", "ignore", PROGRAM], PATIENCE_S, cwd=work)
        except subprocess.TimeoutExpired:
            return "", Kind.PROGRAM_TOO_SLOW(seconds=PATIENCE_S)
        if "ModuleNotFoundError" not in done.stderr:
            break
    if "Traceback" in done.stderr or done.returncode not in (0, 1):
        last = done.stderr.strip().rpartition("\n")[2]
        return "", last or Kind.EXIT_STATUS(status=done.returncode)
    return (done.stdout or done.stderr) if done.returncode else "", ""


def _put(made: Path | None, base: Path) -> None:
    """Put what was made in place of what a former run has left; where nothing was, that goes."""
    for name in LEFT:
        if made and (made / name).is_file():
            (made / name).replace(base / name)
        else:
            (base / name).unlink(missing_ok=True)


def _mended(base: Path, step: Step, finding: Finding) -> str:
    """The diff that `twincheck mend` has proven, where it was asked before, and of this finding."""
    file = base.parent / "mend" / "mend.json"
    told = load_json(file) if file.is_file() else {"proven": False}
    is_of_it = told["proven"] and told["red"][:1] == [[step.number, finding.row.key]]
    return told["diff"] if is_of_it else ""


def _place(finding: Finding, side: str, pair: Pair) -> str:
    """A side's line, from the pair's folder or from that of installed packages."""
    place = finding.places.get(side, NO_LINE)
    for folder in (f"/{pair.folder.name}/", "/site-packages/"):
        place = place.rpartition(folder)[2]
    return place


def issue(
    title: str,
    exact: bool,
    places: Mapping[str, str],
    versions: Mapping[str, str],
    work: Path,
    shows: str,
    diff: str,
) -> str:
    """The text of the issue, in the language that people read.

    exact       float64 shows it too
    places      side -> its line
    versions    side -> its framework's
    work        the folder of the program, and of its arrays if it has any
    shows       what the program printed
    diff        what mends it; "" where nobody knows
    """
    program = (work / PROGRAM).read_text(encoding="utf-8")
    lines = [
        f"# {in_language(title)}",
        in_language(Kind.VALUES_DIFFER() if exact else Kind.PRECISION_DIFFERS()),
        f"|  | torch {versions['torch']} | paddlepaddle {versions['paddle']} |\n|---|---|---|\n"
        f"| {in_language(Kind.LINE())} | `{places['torch']}` | `{places['paddle']}` |",
        in_language(Kind.PROGRAM_NEEDS()),
        f"```python\n{program}```",
        in_language(Kind.PROGRAM_PRINTS()),
        f"```text\n{shows.strip()}\n```",
    ]
    if (work / ARRAYS).is_file():
        lines.insert(4, in_language(Kind.ARRAYS_APART(file=ARRAYS)))
    if diff:
        lines.append(in_language(Kind.MENDED_BY()))
        lines.append(f"```diff\n{diff.rstrip()}\n```")
    return "\n\n".join(lines) + "\n"
