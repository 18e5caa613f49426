"""What people see: a progress line, a table of verdicts, and where it is red, what and where.

rich leaves colours and the progress line out where the output is no terminal.
"""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import islice

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from twincheck.common.logs.sums import shape_of_sums
from twincheck.common.report import sentences
from twincheck.common.report.commands import PAGE, extra, mend_of_start, next_commands, shown
from twincheck.common.report.findings import Finding, beside, findings_of
from twincheck.common.report.initial import RECIPE
from twincheck.common.report.not_run import lines_not_run, never_ran
from twincheck.common.report.scores import allowed, figure, scores_of
from twincheck.common.report.sentences import folded, listed, named, number
from twincheck.common.report.source_lines import source_context
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.extras import in_language
from twincheck.common.system.program import say_error
from twincheck.common.system.reasons import Kind, Reason, is_of
from twincheck.common.system.words import escaped as visible
from twincheck.common.verdict.row import (
    AGREEING,
    Row,
    badness,
    count_verdicts,
    share,
    worst_row,
)

# Tone of a verdict, on the page too -> its verdicts; and its colour in a terminal.
_TONES = {
    "good": AGREEING,
    "mind": ("INSIDE", "CLOSE", "FLIP", "CONSTANT"),
    "carried": ("CARRIED",),
    "open": ("UNDECIDED",),
    "bad": ("PRECISION", "DIVERGED", "INVALID"),
}
TONES = {verdict: tone for tone, verdicts in _TONES.items() for verdict in verdicts}
_COLOURS = {"good": "green", "mind": "yellow", "carried": "magenta", "open": "blue", "bad": "red"}
COLOURS = {verdict: _COLOURS[tone] for verdict, tone in TONES.items()}
_OF_WORDS = {"ALIGNED": "green", "NOT ALIGNED": "red", "UNDECIDED": "blue", "NOT COMPARED": "red"}
WIDTH_OF_AN_END = 24  # characters of a shortened key
SHOWN_ROWS = 10  # of a table of rows: the worst
SHOWN_ORIGINS = 5
# What ends a check, where it is the port's.
DOES_NOT_RUN = (Kind.WORKER_CRASHED, Kind.WORKER_ENDED, Kind.WEIGHTS_NOT_CARRIED)
SHOWN_NOTES = 8
WIDTH_OF_PLAIN_TEXT = 110
WIDTH_OF_A_PIPE = 140  # columns, where the output is no terminal


_NOTE = Kind.NOTE()  # stands before a note of a red result, which is indented
_OF_SCORES = (
    *(Kind.HEADING_MODEL, Kind.HEADING_SCORE, Kind.HEADING_TORCH, Kind.HEADING_PADDLE),
    *(Kind.HEADING_DIFFERENCE, Kind.HEADING_GUIDE_ALONE),
)
# Heading of a table of rows -> the number that is in the column.
_OF_ROWS = {
    Kind.HEADING_GAP_ALONE: "gap",
    Kind.HEADING_ALLOWED: "allowed",
    Kind.HEADING_TORCH: "noise_ref",
    Kind.HEADING_PADDLE: "noise_cand",
    Kind.HEADING_SIZE: "scale",
    Kind.HEADING_MEAN: "mean_abs",
    Kind.HEADING_MAX: "max_abs",
}


class _Console(Console):
    """A console whose closed pipe is an error like any other: rich would leave with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: object, **options: object) -> None:
        """Print reasons, and those in a table, in the language that people read."""
        super().print(*map(_spoken, objects), **options)


def _spoken(what: object) -> object:
    """Return what a console is to print, its reasons in the language that people read."""
    if isinstance(what, Reason):
        return in_language(what)
    if isinstance(what, Table):
        what = copy(what)
        what.title = what.title and _spoken(what.title)
        what.columns = [copy(column) for column in what.columns]
        for column in what.columns:
            column.header = _spoken(column.header)
            column._cells = [_spoken(cell) for cell in column._cells]
    return what


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return _Console(
        stderr=stderr,
        width=None if stream.isatty() else WIDTH_OF_A_PIPE,
        highlight=False,
        emoji=False,  # a.py:X: is a file and its class
    )


def say(text: str | Text) -> None:
    """Print a line."""
    _console().print(in_colour(text) if isinstance(text, str) else text, soft_wrap=True)


def in_colour(text: str) -> Text:
    """Return a line in the language that people read; the word that a check ends with in colour."""
    line = Text(in_language(text))
    if is_of(text, Kind.LAST_LINE, Kind.LAST_LINE_LETS_PASS):
        word = text.fields["word"]
        colour = _OF_WORDS[word] if text.kind is Kind.LAST_LINE else "yellow"
        line.stylize(f"bold {colour}", 0, len(word))
    return line


def _line(marked_up: str) -> None:
    _console().print(marked_up, soft_wrap=True)


def show_table(table: Table) -> None:
    """Print a table."""
    _console().print(table)


@contextmanager
def progress() -> Iterator[Callable[..., None]]:
    """A line that says what is running, for how long, and how long it will still take.

    The function that is given takes a text, and the share of the work that is done, 0 to 1, where
    that is known.  Silent where there is no terminal.
    """
    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda text, share=None: None
        return
    now = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    columns = (SpinnerColumn(), now, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(in_language(Kind.STARTING()), total=1.0)

        def show(text: str, share: float | None = None) -> None:
            # All of it is done when the line goes: what is said to be done may begin once more.
            done = None if share is None else min(share, 0.999)
            bar.update(task, description=in_language(text), completed=done)

        yield show


def guide_word(passed: bool | None) -> str:
    """The guide's verdict in its own words."""
    if passed is None:
        return "–"
    return Kind.GUIDE_PASSED() if passed else Kind.GUIDE_FAILED()


def counted(rows: Sequence[Row]) -> str:
    """Say how many rows have each verdict, worst first."""
    return ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(rows).items())


def show_step(step, results) -> None:
    """The table of one step, a row a model, then the details of what is red."""
    title = Kind.STEP_TITLE(number=step.number, title=sentences.step_title(step))
    table = Table(title=title, title_justify="left")
    gap = "\n" if _console().width < WIDTH_OF_PLAIN_TEXT else " "
    numbers = Kind.HEADING_GAP(space=gap), Kind.HEADING_DIGITS(space=gap)
    names = Kind.HEADING_MODEL(), Kind.HEADING_VERDICT(), Kind.HEADING_ROWS()
    folding = Kind.HEADING_WORST(), Kind.HEADING_GUIDE(), Kind.HEADING_SECONDS()
    for heading in (*names, folding[0], *numbers, *folding[1:]):
        table.add_column(heading, overflow="fold", no_wrap=heading not in folding)
    judged = [result for result in results if not result.error]
    for result in judged:
        row = worst_row(result.rows, result.allow)
        table.add_row(
            result.model,
            _coloured(result.verdict),
            str(len(result.rows)),
            escape(visible(row.key)) if row else "–",
            f"{number(row.gap)} /{gap}{number(row.allowed)}" if row else "–",
            _digits(result) or "–",
            " / ".join(
                in_language(guide_word(passed))
                for passed in (result.guide_passed, result.guide_all_passed)
            ),
            f"{result.elapsed_s:.1f}",
        )
    show_decided(judged)
    if judged:
        show_table(table)
    show_scores(judged)
    show_details(results)


def _digits(result) -> str:
    """The digits of the output that lacks most of them, for a column that says what they are."""
    shared = sentences.fewest_digits(result.rows, result.cases)
    if is_of(shared, Kind.DIGITS):
        return f"{shared.fields['shared']:.1f}"
    if is_of(shared, Kind.DIGITS_OF):
        return in_language(Kind.DIGITS_CELL(**shared.fields))
    return in_language(shared and Kind.ALL())


def show_decided(results) -> None:
    """Print how results decide their several questions, a line each, alike ones together."""
    found: dict[tuple, list] = {}
    for result in results:
        for name, of in result.answers.get("decided", {}).items():
            found.setdefault((name, of["verdict"]), []).append((result, of["said"]))
    for (name, verdict), several in found.items():
        for alike, said in folded(several):
            models = escape(listed(dict.fromkeys(visible(result.model) for result in alike)))
            rest = [escape(visible(in_language(said)))] if said else []
            _line(f"{models}, {': '.join([escape(visible(name)), _coloured(verdict), *rest])}")


def show_scores(results) -> None:
    """Both sides' scores of the steps that have some, and what the guide says of each."""
    for step in {result.step.number: result.step for result in results}.values():
        table = Table(box=None, pad_edge=False)
        for heading in _OF_SCORES:
            table.add_column(heading(), overflow="fold")
        for result in results:
            if result.step.number != step.number:
                continue
            for score in scores_of(result.folder, step.guide_stem, step.guide_threshold):
                table.add_row(
                    result.model,
                    escape(visible(score.name)),
                    figure(score.torch),
                    figure(score.paddle),
                    score.of_torchs(score.difference),
                    guide_word(score.passed),
                )
        if table.row_count:
            limit = Kind.GUIDE_ALLOWS(limit=allowed(step.guide_threshold))
            _line("")
            say(Kind.SCORES_OF_STEP(number=step.number, limit=limit))
            show_table(table)


def origins_first(row: Row) -> tuple[bool, int, float]:
    """By which what is to be looked at first comes last: origins, and of these the worst."""
    return row.origin, *badness(row)


def show_rows(rows: Sequence[Row]) -> None:
    """The table of rows: the worst, by verdict and then by the part of what was allowed."""
    table = Table()
    table.add_column(Kind.HEADING_TENSOR(), overflow="fold")
    for heading in (Kind.HEADING_VERDICT, *_OF_ROWS):
        table.add_column(heading(), no_wrap=True)
    for row in sorted(rows, key=badness, reverse=True)[:SHOWN_ROWS]:
        values = (number(getattr(row, name)) for name in _OF_ROWS.values())
        table.add_row(escape(visible(row.key)), _coloured(row.verdict), *values)
    show_table(table)
    if len(rows) > SHOWN_ROWS:
        say(Kind.ROWS_NO_WORSE(count=len(rows) - SHOWN_ROWS))


def show_all(steps, results) -> None:
    """The table of every step (rows) and model (columns), then the details of what is red."""
    models = list(dict.fromkeys(result.model for result in results))
    cells = {(result.step.number, result.model): result for result in results}
    judged = [result for result in results if not result.error]
    table = Table(Kind.HEADING_STEP(), title=Kind.TABLE_OF_ALL(), title_justify="left")
    for model in models:
        table.add_column(model, overflow="fold")
    for step in steps:
        row = [cells.get((step.number, model)) for model in models]
        row = ["–" if cell is None else _cell(cell) for cell in row]
        title = Kind.STEP_ROW(number=step.number, title=sentences.step_title(step))
        table.add_row(title, *row, end_section=True)
    if judged:
        show_table(table)
    show_decided(judged)
    show_scores(judged)
    show_details(results)


def _cell(result) -> str:
    said, row = in_language, worst_row(result.rows, result.allow)
    used = used_part(row)
    shared = sentences.fewest_digits(result.rows, result.cases)
    verdict = _coloured(result.verdict)
    passed, all_passed = guide_word(result.guide_passed), guide_word(result.guide_all_passed)
    return "\n".join(
        [
            said(Kind.CELL_VERDICT(verdict=verdict, count=len(result.rows))),
            *([said(Kind.CELL_USED(used=used))] if used else []),
            *filter(None, [escape(short(row.key) if row else said(result.error))]),
            *([said(Kind.OUTPUTS_SHARE(digits=shared))] if shared else []),
            said(Kind.CELL_GUIDE(guide=passed)),
            said(Kind.CELL_TENSORS(guide=all_passed, seconds=result.elapsed_s)),
        ]
    )


def used_part(row: Row | None) -> str:
    """Say how much of what is allowed a row used; empty where nothing was measured."""
    used = None if row is None else share(row)
    if used is None:
        return ""
    return (Kind.USED_OF_ALLOWED if used <= 1 else Kind.USED_TIMES_ALLOWED)(part=used)


def short(key: str) -> str:
    """A key for a narrow column: its first folder and the end of its path."""
    head, _, tail = visible(key).partition("/")
    parts = re.split(r"(?=[./])", tail or head)
    end = parts.pop()
    while parts and len(parts[-1] + end) <= WIDTH_OF_AN_END:
        end = parts.pop() + end
    end = f"…{end}" if parts else end
    return f"{head}/{end}" if tail else end


def _coloured(verdict: str) -> str:
    colour = COLOURS.get(verdict, "white")
    return f"[{colour}]{verdict}[/{colour}]"


def show_details(results) -> None:
    """Notes, each once; errors; and for each red result its origins with file and line on both
    sides, of what a model's further steps carry the first line alone."""
    _show_notes([result for result in results if not result.error and result.exit_code != 1])
    green = all(result.exit_code == 0 for result in results)
    for model, files in lines_not_run(results if green else ()).items():
        whose = named([result for result in results if result.model == model])
        for _, note in islice(never_ran(files), SHOWN_NOTES):
            _say_of(whose, note)
    first: dict[str, object] = {}
    for result in results:
        if result.error:
            say_error(Kind.NOTE_OF(whose=named([result]), note=result.error))
            why = result.failure.reason if result.failure else ""
            of_the_port = is_of(why, *DOES_NOT_RUN) and result.failure.side != "torch"
            if of_the_port and (mend := extra(result, "mend")):
                _line(f"  {escape(in_language(Kind.TYPE_MEND_ERROR(command=mend)))}")
        elif result.exit_code == 1:
            _show_red(result, results, first.setdefault(result.model, result))
        else:
            _show_beside(result)


def _show_notes(results, start: str = "") -> None:
    """Print the notes on results, and why some rows pass: each thing once.

    start  what stands before each, where it is not to be said of which results it is
    """
    for alike, note in folded((result, note) for result in results for note in _notes(result)):
        _say_of(start or named(alike), note)
    show_excused([(result, row) for result in results for row in result.rows], start)


def _notes(result) -> list[str]:
    """The notes of a result, and what is to be known of its modes and of the guide's rule."""
    passed = result.exit_code == 0
    notes = [note for note in result.notes if not (passed and is_of(note, Kind.CAPPED))]
    notes += [] if is_of(result.modes, Kind.MODES_BOTH) else [result.modes]
    if passed and False in (result.guide_passed, result.guide_all_passed):
        notes.append(_by_the_guide(result))
    return list(dict.fromkeys(filter(None, notes)))


def _say_of(whose: str, note: str) -> None:
    indent = "  " * (whose is _NOTE)
    _line(indent + escape(in_language(Kind.NOTE_OF(whose=whose, note=note))))


def show_excused(rows: Iterable[tuple[object, Row]], start: str = "") -> None:
    """Print why rows pass that are not plain rounding, a line for each cause.

    rows  each with the result that it is of, which may be anything where there is a start
    """
    excused = [each for each in rows if each[1].verdict in ("CONSTANT", "FLIP")]
    kinds: dict[str, list] = {}
    for each in excused:
        kinds.setdefault(each[1].verdict, []).append((each, Kind.TEXT(text=list(each[1].reasons))))
    causes = [(alike, note) for some in kinds.values() for alike, note in folded(some)]
    causes.sort(key=lambda cause: excused.index(cause[0][0]))
    for alike, note in causes[:SHOWN_NOTES]:
        row, count = alike[0][1], len(alike)
        at = {"verdict": row.verdict, "key": visible(row.key), "note": note}
        where = Kind.EXCUSED_ROWS(count=count, **at) if count > 1 else Kind.EXCUSED_ROW(**at)
        _say_of(start or named([result for result, _ in alike]), where)
    left = sum(len(alike) for alike, _ in causes[SHOWN_NOTES:])
    if left:
        further = Kind.AND_FURTHER_ROWS(count=left)
        _say_of(start, further) if start else say(further)


def _by_the_guide(result) -> str:
    """Say how the guide's rule judges a result that ours lets pass, and why."""
    if result.guide_passed is False:
        report = result.guide_report and Kind.REPORT_IN_FOLDER(report=result.guide_report)
        return Kind.BY_THE_GUIDE(why=result.guide_failure, report=report)
    not_every = Kind.GUIDE_KEYS_PASS if result.guide_passed else Kind.GUIDE_NOT_EVERY
    return not_every(why=result.guide_failure)


def _show_red(result, results, before) -> None:
    """Print what is wrong in one sentence; then numbers, both sides' lines, and what to type.

    before  the first red result of the model: what is behind it may only be carried
    """
    name, findings = named([result]), findings_of(result)
    _line("")
    headline = in_language(Kind.NOTE_OF(whose=name, note=findings[0].headline))
    _prose(f"[bold red]{escape(visible(headline))}[/bold red]", "")
    _line(f"  {counted(result.rows)}")
    if before is not result:
        places = list(findings[0].places.values())
        before = Kind.MEND_BEFORE(places=places, step=before.step.number)
        _line(f"  {escape(visible(in_language(before)))}")
        _show_notes([result], _NOTE)
        return
    for i, finding in enumerate(findings[:SHOWN_ORIGINS]):
        _show_origin(finding, first=i == 0)
    if len(findings) > SHOWN_ORIGINS:
        further = Kind.FURTHER_ORIGINS(count=len(findings) - SHOWN_ORIGINS)
        _line(f"  {in_language(further)}")
    _show_notes([result], _NOTE)
    if result.way:
        way = in_language(Kind.RUNS_BESIDE(runs=list(result.way)))
        _line(f"  {escape(visible(way))}")
    _line(f"  {in_language(Kind.WHAT_TO_TYPE())}")
    for why, command in next_commands(result, findings, results):
        _line(f"    # {in_language(why)}")
        _line(f"    {escape(visible(command))}")
    _line(f"    # {escape(in_language(Kind.HOW_TO_READ(page=shown(ROOT / PAGE))))}")


def _show_beside(result) -> None:
    """Initial values that are not torch's, which decide nothing: where, and what sets them."""
    for i, finding in enumerate(beside(result)):
        said = in_language(Kind.NOTE_OF(whose=named([result]), note=finding.sentence))
        _prose(escape(visible(said)), "")
        _show_origin(finding, first=i == 0, is_red=False)
    for why, command in mend_of_start(result):
        _line(f"  # {in_language(why)}")
        _line(f"  {escape(visible(command))}")


def _show_origin(finding: Finding, first: bool, is_red: bool = True) -> None:
    """One place where it starts: the numbers, and where both sides compute it; of the first the
    source too, with what is around it."""
    word, row = in_language(Kind.FIRST() if first else Kind.ALSO()), finding.row
    facts = facts_of(finding) if is_red else []  # of what is beside, the sentence above says all
    if is_red:
        _line(f"  {word}: {_coloured(row.verdict)} {escape(visible(row.key))}")
    if is_red and not first:  # the headline has said it
        facts = [finding.sentence, *facts]
        if row.gap is not None and row.measure != "claim":
            facts = [*facts[:2], *_notes_of(row)]
    for line in filter(None, [*dict.fromkeys(facts), finding.again, finding.built]):
        if not first or line != finding.sentence:
            _prose(escape(visible(in_language(line))))
    for side, place in finding.places.items():
        _line(f"    {side:<7} {escape(visible(in_language(place)))}")
        for line in source_context(place) if first else ():
            mark = ">" if line.here else " "
            source = "".join(c if c.isprintable() else " " for c in line.text.expandtabs(4))
            text = f"      {mark} {line.number:>4}  {source}".rstrip()
            _console().print(escape(text), no_wrap=True, overflow="ellipsis", crop=True)
    if finding.recipe:
        _line(f"    {in_language(RECIPE)}")
    for line in finding.recipe:
        _console().print(escape(f"      {visible(line)}"), no_wrap=True, soft_wrap=True)


def _prose(marked_up: str, indent: str = "    ") -> None:
    """A sentence: in a terminal wrapped at words under its own start, elsewhere one line."""
    console = _console()
    if console.is_terminal:
        console.print(Padding(Text.from_markup(marked_up, emoji=False), (0, 0, 0, len(indent))))
    else:
        _line(indent + marked_up)


def facts_of(finding: Finding) -> list[str]:
    """The facts of a finding's row; of initial values its note, whose numbers are the test's."""
    return _notes_of(finding.row) if finding.is_start else describe(finding.row)


def _notes_of(row: Row) -> list[Reason]:
    """A row's reasons as one; nothing where there is none."""
    return [Kind.TEXT(text=list(row.reasons))] if row.note else []


def describe(row: Row) -> list[str]:
    """The four facts of a mismatch: how many, how much, where, how much was allowed."""
    if row.verdict == "INVALID" and row.gap is None and row.max_abs is None:
        return _notes_of(row)
    digits = sentences.digits(row)
    shared = digits and Kind.DIGITS_SHARED_HERE(digits=digits)
    if row.measure == "claim" or row.by_itself:
        return [*filter(None, [sentences.decided(row), shared]), *_notes_of(row)]
    lines = [*filter(None, [sentences.decided(row)])]
    worst = {"torch": repr(row.worst_ref), "paddle": repr(row.worst_cand)}
    if row.beyond and row.of_sums:
        numbers, index = math.prod(shape_of_sums(row.shape)), str(list(row.worst_index))
        where = Kind.AT_INDEX(index=index)
        if row.of_sums > 1:
            where = Kind.SUM_OF_NEIGHBOURS(count=row.of_sums, index=index)
        counts = {"beyond": row.beyond, "numbers": numbers, "size": row.size}
        lines.append(Kind.SUMS_BEYOND(where=where, **counts, **worst))
    elif row.beyond:
        index = row.worst_index
        where = "" if index is None else Kind.AT_INDEX_BEHIND(index=str(list(index)))
        sample = "" if row.sample is None else Kind.OF_SAMPLE(sample=row.sample)
        counts = {"beyond": row.beyond, "size": row.size}
        lines.append(Kind.ELEMENTS_BEYOND(where=where, sample=sample, **counts, **worst))
    differences = {"mean": number(row.mean_abs), "max": number(row.max_abs)}
    guide = guide_word(row.guide_passed)
    lines.append(Kind.FLOAT32_DIFFERENCES(guide=guide, **differences))
    return [*lines, *filter(None, [shared]), *_notes_of(row)]
