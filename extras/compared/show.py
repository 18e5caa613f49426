"""What the terminal shows of two results that were compared: what got worse first, a table each."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from twincheck.common.report import terminal
from twincheck.common.report.terminal import visible
from twincheck.common.system.extras import in_language
from twincheck.extras.compared import Kind, words
from twincheck.extras.compared import compare as c
from twincheck.extras.compared.compare import Change, Compared
from twincheck.extras.compared.surroundings import Difference

SHOWN_CAUSES = 8
_COLOURS = {"good": "green", "mind": "yellow", "bad": "red", "quiet": "white"}


def show(found: Compared, differing: Sequence[Difference], alike: Sequence[str]) -> None:
    """All of it but the sentence."""
    pairs = Kind.PAIR if len(found.models) == 1 else Kind.PAIRS
    before, now = Kind.BEFORE(path=str(found.old.path)), Kind.NOW(path=str(found.new.path))
    for line in (pairs(models=found.models), before, now, ""):
        terminal.say(visible(line))
    _rows(found, found.worse, Kind.TABLE_WORSE())
    _causes(found)
    _rows(found, found.of(c.STILL), Kind.TABLE_FAIL_STILL())
    _results(found)
    _surroundings(found, differing, alike)
    _rows(found, found.of(*c.BETTER), Kind.TABLE_BETTER())
    _rows(found, found.of(c.GONE, c.NEW), Kind.TABLE_ALONE())
    _noise(found)
    terminal.say(Kind.UNCHANGED_ROWS(rows=words.unchanged(found)))


def _step(found: Compared, name: c.Name) -> str:
    return escape(visible(c.named(name, len(found.models) > 1)))


def _table(title: str, *headings: str, fold: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading not in fold)
    return table


def _left(count: int) -> None:
    if count > terminal.SHOWN_ROWS:
        terminal.say(Kind.ROWS_FURTHER(count=count - terminal.SHOWN_ROWS))


def _rows(found: Compared, changes: Sequence[Change], title: str) -> None:
    """A table of rows; the colour is that of the verdict now, of no verdict before."""
    if not changes:
        return
    tensor, more = Kind.COLUMN_TENSOR(), Kind.COLUMN_ELSE()
    columns = tensor, Kind.COLUMN_VERDICT(), Kind.COLUMN_LIMIT_BEFORE(), Kind.COLUMN_NOW(), more
    table = _table(title, Kind.COLUMN_STEP(), *columns, fold=(tensor, more))
    for change in changes[: terminal.SHOWN_ROWS]:
        verdict = escape(words.verdicts(change))
        if change.after is not None:
            colour = "red" if change.what in c.WORSE else terminal.COLOURS[change.after.verdict]
            verdict = f"[{colour}]{verdict}[/{colour}]"
        table.add_row(
            _step(found, change.name),
            escape(visible(change.key)),
            verdict,
            words.of_limit(change.before),
            words.of_limit(change.after),
            Kind.TOLD_APART(parts=words.remarks(change)),
        )
    terminal.show_table(table)
    _left(len(changes))


def _causes(found: Compared) -> None:
    for cause in found.causes[:SHOWN_CAUSES]:
        step = c.titled(cause.name, len(found.models) > 1)
        terminal.say(Kind.CAUSE_OF_STEP(step=step, cause=visible(words.cause(cause))))
    if len(found.causes) > SHOWN_CAUSES:
        terminal.say(Kind.CAUSES_FURTHER(count=len(found.causes) - SHOWN_CAUSES))


def _results(found: Compared) -> None:
    columns = Kind.COLUMN_VERDICT(), Kind.COLUMN_ROWS(), Kind.COLUMN_GUIDE(), Kind.COLUMN_BECAME()
    table = _table("", Kind.COLUMN_STEP(), *columns)
    for name in words.worst_first(found):
        both = found.old.found.get(name), found.new.found.get(name)
        colour = _COLOURS[words.tone_of(found, name)]
        texts = [
            [one.verdict if one else "–" for one in both],
            [f"{len(one.rows):,}" if one else "–" for one in both],
            [terminal.guide_word(one.guide_passed) if one else "–" for one in both],
        ]
        verdict, rows, guide = (a if a == b else f"{a} → {b}" for a, b in texts)
        short = f"[{colour}]{in_language(words.in_short(found, name))}[/{colour}]"
        verdict = f"[{colour}]{verdict}[/{colour}]"
        table.add_row(_step(found, name), verdict, rows, guide, short)
    terminal.show_table(table)


def _surroundings(found: Compared, differing: Sequence[Difference], alike: Sequence[str]) -> None:
    if differing:
        fold = Kind.COLUMN_BEFORE(), Kind.COLUMN_NOW()
        columns = Kind.COLUMN_WHAT(), Kind.COLUMN_SIDE(), *fold, Kind.COLUMN_OF()
        table = _table(Kind.TABLE_AROUND(), *columns, fold=fold)
        for one in differing:
            steps = [c.titled(name, len(found.models) > 1) for name in one.of]
            of = Kind.TOLD_IN_TURN(parts=steps) if steps else Kind.STEPS_ALL()
            cells = (one.what, one.side or "–", one.before, one.after, of)
            table.add_row(*(escape(in_language(visible(cell))) for cell in cells))
        terminal.show_table(table)
    else:
        terminal.say(Kind.AROUND_NOTHING())
    if differing and alike:
        terminal.say(visible(Kind.AROUND_ALIKE(names=list(alike))))


def _noise(found: Compared) -> None:
    noisy = found.noisy
    if not noisy:
        return
    columns = [Kind.COLUMN_TENSOR(), Kind.COLUMN_VERDICT(), Kind.COLUMN_NOISE()]
    table = _table(Kind.TABLE_NOISE(), Kind.COLUMN_STEP(), *columns, fold=columns[:1])
    for change in noisy[: terminal.SHOWN_ROWS]:
        names = map(escape, (visible(change.key), words.verdicts(change)))
        table.add_row(_step(found, change.name), *names, words.noise(change))
    terminal.show_table(table)
    _left(len(noisy))
