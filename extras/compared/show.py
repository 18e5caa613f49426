"""What the terminal shows of two results that were compared: what got worse first, a table each."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from twincheck.common.report import terminal
from twincheck.common.report.terminal import visible
from twincheck.extras.compared import compare as c
from twincheck.extras.compared import words
from twincheck.extras.compared.compare import Change, Compared
from twincheck.extras.compared.surroundings import Difference

SHOWN_CAUSES = 8
_COLOURS = {"good": "green", "mind": "yellow", "bad": "red", "quiet": "white"}


def show(found: Compared, differing: Sequence[Difference], alike: Sequence[str]) -> None:
    """All of it but the sentence."""
    pairs = "pair" if len(found.models) == 1 else "pairs"
    lines = (f"{pairs}: {', '.join(found.models)}", f"before: {found.old.path}")
    for line in (*lines, f"now: {found.new.path}", ""):
        terminal.say(visible(line))
    _rows(found, found.worse, "got worse")
    _causes(found)
    _rows(found, found.of(c.STILL), "fails as before")
    _results(found)
    _surroundings(found, differing, alike)
    _rows(found, found.of(*c.BETTER), "got better")
    _rows(found, found.of(c.GONE, c.NEW), "in one of them alone")
    _noise(found)
    terminal.say(f"unchanged: {words.unchanged(found)}")


def _title(found: Compared, name: c.Name) -> str:
    return escape(visible(c.titled(name, len(found.models) > 1)))


def _table(title: str, *headings: str, fold: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading not in fold)
    return table


def _left(count: int) -> None:
    if count > terminal.SHOWN_ROWS:
        terminal.say(f"and {count - terminal.SHOWN_ROWS:,} more, in --json FILE and on the page")


def _rows(found: Compared, changes: Sequence[Change], title: str) -> None:
    """A table of rows; the colour is that of the verdict now, of no verdict before."""
    if not changes:
        return
    folding = ("tensor", "what else")
    numbers = ("gap / limit before", "now")
    table = _table(title, "step", "tensor", "verdict", *numbers, "what else", fold=folding)
    for change in changes[: terminal.SHOWN_ROWS]:
        verdict = escape(words.verdicts(change))
        if change.after is not None:
            colour = "red" if change.what in c.WORSE else terminal.COLOURS[change.after.verdict]
            verdict = f"[{colour}]{verdict}[/{colour}]"
        table.add_row(
            _title(found, change.name).removeprefix("step "),
            escape(visible(change.key)),
            verdict,
            words.of_limit(change.before),
            words.of_limit(change.after),
            escape("; ".join(words.remarks(change))),
        )
    terminal.show_table(table)
    _left(len(changes))


def _causes(found: Compared) -> None:
    for cause in found.causes[:SHOWN_CAUSES]:
        terminal.say(
            f"{c.titled(cause.name, len(found.models) > 1)}: {visible(words.cause(cause))}"
        )
    if len(found.causes) > SHOWN_CAUSES:
        terminal.say(f"and {len(found.causes) - SHOWN_CAUSES:,} further causes")


def _results(found: Compared) -> None:
    table = _table("", "step", "verdict", "rows", "guide", "what became of its rows")
    for name in words.worst_first(found):
        both = found.old.found.get(name), found.new.found.get(name)
        colour = _COLOURS[words.tone_of(found, name)]
        texts = [
            [one.verdict if one else "–" for one in both],
            [f"{len(one.rows):,}" if one else "–" for one in both],
            [terminal.guide_word(one.guide_passed) if one else "–" for one in both],
        ]
        verdict, rows, guide = (a if a == b else f"{a} → {b}" for a, b in texts)
        short = f"[{colour}]{escape(words.in_short(found, name))}[/{colour}]"
        verdict = f"[{colour}]{verdict}[/{colour}]"
        table.add_row(_title(found, name).removeprefix("step "), verdict, rows, guide, short)
    terminal.show_table(table)


def _surroundings(found: Compared, differing: Sequence[Difference], alike: Sequence[str]) -> None:
    if differing:
        names = ("before", "now")
        table = _table("what differs around them", "what", "side", *names, "of", fold=names)
        for one in differing:
            of = ", ".join(c.titled(name, len(found.models) > 1) for name in one.of) or "all steps"
            cells = (one.what, one.side or "–", one.before, one.after, of)
            table.add_row(*(escape(visible(cell)) for cell in cells))
        terminal.show_table(table)
    else:
        terminal.say("nothing differs around them: versions, sources and settings are the same")
    if differing and alike:
        terminal.say(visible(f"the same in both: {', '.join(alike)}"))


def _noise(found: Compared) -> None:
    noisy = found.noisy
    if not noisy:
        return
    table = _table("other noise", "step", "tensor", "verdict", "noise", fold=("tensor",))
    for change in noisy[: terminal.SHOWN_ROWS]:
        cells = (change.key, words.verdicts(change), words.noise(change))
        step = _title(found, change.name).removeprefix("step ")
        table.add_row(step, *(escape(visible(cell)) for cell in cells))
    terminal.show_table(table)
    _left(len(noisy))
