"""What people see: a progress line, a table of verdicts, and where it is red, what and where.

rich leaves colours and the progress line out where the output is no terminal.
"""

import io
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from twincheck.common.logs.pickle_machine import escaped as visible
from twincheck.common.logs.sums import shape_of_sums
from twincheck.common.report import sentences
from twincheck.common.report.commands import PAGE, extra, mend_of_start, next_commands, shown
from twincheck.common.report.findings import Finding, beside, findings_of
from twincheck.common.report.initial import RECIPE
from twincheck.common.report.scores import allowed, figure, scores_of
from twincheck.common.report.sentences import folded, listed, named, number
from twincheck.common.report.source_lines import source_context
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.extras import in_language, languages
from twincheck.common.system.reasons import Kind, is_of
from twincheck.common.system.words import by_their_names, number_of
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
WIDTH_OF_AN_END = 24  # characters of a shortened key
SHOWN_ROWS = 10  # of a table of rows: the worst
SHOWN_ORIGINS = 5
DOES_NOT_RUN = "paddle worker", "weights cannot be carried over"  # the port, not torch
SHOWN_NOTES = 8
WIDTH_OF_PLAIN_TEXT = 110
WIDTH_OF_A_PIPE = 140  # columns, where the output is no terminal


class _Console(Console):
    """A console whose closed pipe is an error like any other: rich would leave with status 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: object, **options: object) -> None:
        """Print in the language that people read, all but lines of source, which do not wrap."""
        for language in () if options.get("no_wrap") else languages():
            objects = map(language.shown, objects)
        super().print(*objects, **options)


class _Named:
    """A stream in whose texts the sides have their names; all else is the stream's own."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(by_their_names(text, in_language))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return _Console(
        file=_Named(stream),
        stderr=stderr,
        width=None if stream.isatty() else WIDTH_OF_A_PIPE,
        highlight=False,
        emoji=False,  # a.py:X: is a file and its class
    )


def say(text: str | Text) -> None:
    """One line of output."""
    _console().print(Text(text) if isinstance(text, str) else text, soft_wrap=True)


def _line(marked_up: str) -> None:
    _console().print(marked_up, soft_wrap=True)


def say_error(sentence: str) -> None:
    """One sentence on standard error."""
    _console(stderr=True).print(f"[red]error:[/red] {escape(sentence)}", soft_wrap=True)


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
    columns = (SpinnerColumn(), now, TimeElapsedColumn(), _Left())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(in_language("starting"), ends=None)
        end = End(time.monotonic)

        def show(text: str, share: float | None = None) -> None:
            bar.update(task, description=in_language(str(text)), ends=end.expected(share))

        yield show


class End:
    """When a work will end, by how fast it went on.

    clock  gives the seconds of now
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock, self._began, self._last = clock, (0.0, 0.0), 1.0

    def expected(self, share: float | None) -> float | None:
        """Return the clock's time at the end of the work; None where nothing says it.

        share  0 to 1, what is done now: less than before where another work began
        """
        if share is None:
            return None
        if share < self._last:
            self._began = self._clock(), share
        self._last = share
        began, of_begin = self._began
        if share <= of_begin:
            return None
        return self._clock() + (self._clock() - began) * (1 - share) / (share - of_begin)


class _Left(ProgressColumn):
    """A column that says how long the work will still take."""

    def render(self, task) -> Text:
        left = None if task.fields["ends"] is None else task.fields["ends"] - time.monotonic()
        if left is None or left < 1:
            return Text("")
        return Text(in_language(f"{time_in_words(left)} left"))


def time_in_words(seconds: float) -> str:
    """Return `about 40 s`: the longer, the coarser."""
    for most, unit in ((10, 1), (60, 5), (180, 10)):
        if seconds < most:
            return f"about {max(round(seconds / unit) * unit, 1)} s"
    return f"about {round(seconds / 60)} min"


def guide_word(passed: bool | None) -> str:
    """The guide's verdict in its own words."""
    return {True: "passed", False: "FAIL", None: "–"}[passed]


def counted(rows: Sequence[Row]) -> str:
    """How many rows have each verdict, worst first."""
    return ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(rows).items())


def show_step(step, results) -> None:
    """The table of one step, a row a model, then the details of what is red."""
    title = f"step {step.number}: {step.other or step.title}"
    table = Table(title=title, title_justify="left")
    gap = "\n" if _console().width < WIDTH_OF_PLAIN_TEXT else " "
    folding = "worst tensor", "guide: its keys / every tensor", "s of both sides"
    numbers = f"gap /{gap}allowed", f"digits{gap}shared"
    for heading in ("model", "verdict", "rows", folding[0], *numbers, *folding[1:]):
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
            sentences.fewest_digits(result.rows, result.cases).removesuffix(" digits") or "–",
            f"{guide_word(result.guide_passed)} / {guide_word(result.guide_all_passed)}",
            f"{result.elapsed_s:.1f}",
        )
    show_decided(judged)
    if judged:
        _console().print(table)
    show_scores(judged)
    show_details(results)


def show_decided(results) -> None:
    """What results consist of that decide several questions, a line each, alike ones together."""
    parts = [
        (result, f"{name}: {of['verdict']}: {of['said']}".removesuffix(": "))
        for result in results
        for name, of in result.answers.get("decided", {}).items()
    ]
    for alike, said in folded(parts):
        name, verdict, *rest = map(escape, visible(said).split(": ", 2))
        models = escape(listed(dict.fromkeys(visible(result.model) for result in alike)))
        _line(f"{models}, {': '.join([name, _coloured(verdict), *rest])}")


def show_scores(results) -> None:
    """Both sides' scores of the steps that have some, and what the guide says of each."""
    for step in {result.step.number: result.step for result in results}.values():
        table = Table(box=None, pad_edge=False)
        for heading in ("model", "score", "torch", "paddle", "difference", "guide"):
            table.add_column(heading, overflow="fold")
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
            limit = f"the guide allows a difference of {allowed(step.guide_threshold)}"
            say(f"\nstep {step.number}: scores; {limit}")
            show_table(table)


def origins_first(row: Row) -> tuple[bool, int, float]:
    """By which what is to be looked at first comes last: origins, and of these the worst."""
    return row.origin, *badness(row)


def show_rows(rows: Sequence[Row]) -> None:
    """The table of rows: the worst, by verdict and then by the part of what was allowed."""
    table = Table()
    table.add_column("tensor", overflow="fold")
    numbers = {"gap": "gap", "allowed": "allowed", "torch": "noise_ref", "paddle": "noise_cand"}
    numbers |= {"size": "scale", "mean": "mean_abs", "max": "max_abs"}
    for heading in ("verdict", *numbers):
        table.add_column(heading, no_wrap=True)
    for row in sorted(rows, key=badness, reverse=True)[:SHOWN_ROWS]:
        values = (number(getattr(row, name)) for name in numbers.values())
        table.add_row(escape(visible(row.key)), _coloured(row.verdict), *values)
    show_table(table)
    if len(rows) > SHOWN_ROWS:
        say(f"and {number_of(len(rows) - SHOWN_ROWS, 'row')} no worse")


def show_all(steps, results) -> str:
    """The table of every step (rows) and model (columns), then the details of what is red.

    Returns the table as plain text.
    """
    models = list(dict.fromkeys(result.model for result in results))
    cells = {(result.step.number, result.model): _cell(result) for result in results}
    table = Table(
        title="verdict · worst tensor · the guide's rule on its own keys, and on every tensor · "
        "seconds of both sides",
        title_justify="left",
    )
    table.add_column("step")
    for model in models:
        table.add_column(model, overflow="fold")
    for step in steps:
        named = (cells.get((step.number, model), "–") for model in models)
        table.add_row(f"{step.number} {step.title}", *named, end_section=True)
    if not all(result.error for result in results):
        _console().print(table)
    show_decided([result for result in results if not result.error])
    show_scores([result for result in results if not result.error])
    show_details(results)
    plain = Console(file=io.StringIO(), width=WIDTH_OF_PLAIN_TEXT)
    plain.print(table)
    return plain.file.getvalue()


def _cell(result) -> str:
    row = worst_row(result.rows, result.allow)
    used = f"{used_part(row)}:" if used_part(row) else ""
    shared = sentences.fewest_digits(result.rows, result.cases)
    return "\n".join(
        [
            f"{_coloured(result.verdict)} in {number_of(len(result.rows), 'row')}",
            *filter(None, [used, escape(short(row.key) if row else result.error)]),
            *([f"outputs share {shared}"] if shared else []),
            f"guide: its keys {guide_word(result.guide_passed)},",
            f"every tensor {guide_word(result.guide_all_passed)} · {result.elapsed_s:.1f} s",
        ]
    )


def used_part(row: Row | None) -> str:
    """How much of what is allowed a row used; empty where nothing was measured."""
    used = None if row is None else share(row)
    if used is None:
        return ""
    return f"{used:.0e} of what is allowed" if used <= 1 else f"{used:.4g} times what is allowed"


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
    first: dict[str, object] = {}
    for result in results:
        if result.error:
            say_error(f"{named([result])}: {result.error}")
            if any(s in result.error for s in DOES_NOT_RUN) and (mend := extra(result, "mend")):
                say(f"  the edit with which it runs, tried and proven: {mend}")
        elif result.exit_code == 1:
            _show_red(result, results, first.setdefault(result.model, result))
        else:
            _show_beside(result)


def _show_notes(results, start: str = "") -> None:
    """What is to be said of results beside their rows, and why some rows pass: each thing once.

    start  what stands before each, where it is not to be said of which results it is
    """
    for alike, note in folded((result, note) for result in results for note in _notes(result)):
        say(f"{start or named(alike)}: {note}")
    show_excused([(result, row) for result in results for row in result.rows], start)


def _notes(result) -> list[str]:
    """The notes of a result, and what is to be known of its modes and of the guide's rule."""
    passed = result.exit_code == 0
    notes = [note for note in result.notes if not (passed and is_of(note, Kind.CAPPED))]
    notes += [result.modes] if "; " in result.modes else []  # not in both modes, and why
    if passed and False in (result.guide_passed, result.guide_all_passed):
        notes.append(_by_the_guide(result))
    return list(dict.fromkeys(notes))


def show_excused(rows: Iterable[tuple[object, Row]], start: str = "") -> None:
    """Why rows pass that are not plain rounding, a line for each cause.

    rows  each with the result that it is of, which may be anything where there is a start
    """
    excused = [each for each in rows if each[1].verdict in ("CONSTANT", "FLIP")]
    causes = folded((each, f"{each[1].verdict}\n{each[1].note}") for each in excused)
    for alike, said in causes[:SHOWN_NOTES]:
        verdict, note = said.split("\n", 1)
        where = visible(alike[0][1].key)
        if len(alike) > 1:
            where = f"in {len(alike)} rows, such as {where}"
        say(f"{start or named([result for result, _ in alike])}: {verdict} {where}: {note}")
    left = sum(len(alike) for alike, _ in causes[SHOWN_NOTES:])
    if left:
        rows = f"{left} further such row{'s' * (left > 1)}"
        say(f"{start + ': ' if start else ''}and {rows}, in --json FILE")


def _by_the_guide(result) -> str:
    """What the guide's rule says where ours lets a result pass, and why it does."""
    if result.guide_passed is False:
        report = f" ({result.guide_report} in its folder)" if result.guide_report else ""
        return f"the guide's rule says FAIL: {result.guide_failure}{report}"
    own = "the keys that it asks for pass, and " if result.guide_passed else ""
    return f"by the guide's rule {own}not every tensor passes: {result.guide_failure}"


def _show_red(result, results, before) -> None:
    """What is wrong, in one sentence; then the numbers, both sides' lines, and what to type.

    before  the first red result of the model: what is behind it may only be carried
    """
    name, findings = named([result]), findings_of(result)
    _line("")
    _prose(f"[bold red]{name}: {escape(visible(findings[0].headline))}[/bold red]", "")
    _line(f"  {counted(result.rows)}")
    if before is not result:
        places = ", ".join(findings[0].places.values())
        _line(f"  {escape(visible(places))}: mend step {before.step.number} before it")
        _show_notes([result], "  note")
        return
    for i, finding in enumerate(findings[:SHOWN_ORIGINS]):
        _show_origin(finding, first=i == 0)
    if len(findings) > SHOWN_ORIGINS:
        _line(f"  and {len(findings) - SHOWN_ORIGINS} further origins, in --json FILE")
    _show_notes([result], "  note")
    if result.way:
        _line(f"  beside the four runs: {escape(visible('; '.join(result.way)))}")
    _line("  what to type next:")
    for why, command in next_commands(result, findings, results):
        _line(f"    # {why}")
        _line(f"    {escape(visible(command))}")
    _line(f"    # how to read this: {escape(shown(ROOT / PAGE))}")


def _show_beside(result) -> None:
    """Initial values that are not torch's, which decide nothing: where, and what sets them."""
    for i, finding in enumerate(beside(result)):
        _prose(escape(visible(f"{named([result])}: {finding.sentence}")), "")
        _show_origin(finding, first=i == 0, is_red=False)
    for why, command in mend_of_start(result):
        say(f"  # {why}")
        say(f"  {visible(command)}")


def _show_origin(finding: Finding, first: bool, is_red: bool = True) -> None:
    """One place where it starts: the numbers, and where both sides compute it; of the first the
    source too, with what is around it."""
    word, row = "first" if first else "also", finding.row
    facts = facts_of(finding) if is_red else []  # of what is beside, the sentence above says all
    if is_red:
        _line(f"  {word}: {_coloured(row.verdict)} {escape(visible(row.key))}")
    if is_red and not first:  # the headline has said it
        facts = [finding.sentence, *facts]
        if row.gap is not None and row.measure != "claim":
            facts = [*facts[:2], *filter(None, [row.note])]
    for line in filter(None, [*dict.fromkeys(facts), finding.again, finding.built]):
        if not first or line != finding.sentence:
            _prose(escape(visible(line)))
    for side, place in finding.places.items():
        _line(f"    {side:<7} {escape(visible(place))}")
        for line in source_context(place) if first else ():
            mark = ">" if line.here else " "
            source = "".join(c if c.isprintable() else " " for c in line.text.expandtabs(4))
            text = f"      {mark} {line.number:>4}  {source}".rstrip()
            _console().print(escape(text), no_wrap=True, overflow="ellipsis", crop=True)
    if finding.recipe:
        _line(f"    {RECIPE}")
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
    return [finding.row.note] if finding.is_start else describe(finding.row)


def describe(row: Row) -> list[str]:
    """The four facts of a mismatch: how many, how much, where, how much was allowed."""
    if row.verdict == "INVALID" and row.gap is None and row.max_abs is None:
        return [row.note] if row.note else []
    shared = sentences.digits(row) and f"torch and paddle share {sentences.digits(row)} here"
    if row.measure == "claim" or row.by_itself:
        return [*filter(None, [sentences.decided(row), shared, row.note])]
    lines = [*filter(None, [sentences.decided(row)])]
    if row.beyond and row.of_sums:
        numbers = math.prod(shape_of_sums(row.shape))
        where = f"at {list(row.worst_index)}"
        if row.of_sums > 1:
            where = f"a sum of {row.of_sums} neighbours, the first {where}"
        lines.append(
            f"{row.beyond} of {numbers} numbers that stand for {row.size} elements are beyond; "
            f"worst {where}: torch {row.worst_ref!r}, paddle {row.worst_cand!r}"
        )
    elif row.beyond:
        where = f" at {list(row.worst_index)}" if row.worst_index is not None else ""
        sample = f" (sample {row.sample})" if row.sample is not None else ""
        lines.append(
            f"{row.beyond} of {row.size} elements beyond; worst{where}{sample}: torch "
            f"{row.worst_ref!r}, paddle {row.worst_cand!r}"
        )
    lines.append(
        f"float32: mean difference {number(row.mean_abs)}, max {number(row.max_abs)}; "
        f"guide {guide_word(row.guide_passed)}"
    )
    return lines + [*filter(None, [shared, row.note])]
