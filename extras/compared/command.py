"""What a mend did, or a new version of a framework: two results beside each other.

    twincheck report OLD NEW [--json FILE]

Each is a folder of results (a step's, a pair's log/, what --out of a check names), a pair's folder
or a bundle, which is verified first.  Nothing is run or judged: what both say is compared, row by
row, and what they were made in and of.  A row got worse where its verdict did.

Exit status: 0 nothing got worse, 1 something did, 2 they cannot be compared.
"""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from twincheck.common.check.options import Parser
from twincheck.common.report import terminal
from twincheck.common.report.sentences import number
from twincheck.common.report.terminal import COLOURS, SHOWN_ROWS, guide_word, visible
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.verdict.row import AGREEING
from twincheck.extras.compared import Kind
from twincheck.extras.compared import compare as c
from twincheck.extras.compared.read import Found, Name, Row, read

SCHEMA = "twincheck-compared/1"
_COUNTS = {
    c.WORSE: Kind.COUNT_WORSE,
    (c.STILL,): Kind.COUNT_FAIL_STILL,
    c.BETTER: Kind.COUNT_BETTER,
    (c.GONE,): Kind.COUNT_GONE,
    (c.NEW,): Kind.COUNT_NEW,
    (c.SAME,): Kind.COUNT_AS_BEFORE,
}
_TABLES = {  # of rows
    c.WORSE: Kind.TABLE_WORSE(),
    (c.STILL,): Kind.TABLE_FAIL_STILL(),
    c.BETTER: Kind.TABLE_BETTER(),
    (c.GONE, c.NEW): Kind.TABLE_ALONE(),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "report")
    for name in ("old", "new"):
        parser.add_argument(name, type=Path, metavar=name.upper(), help=Kind.OPTION_RESULT())
    parser.add_argument("further", nargs="*", help=argparse.SUPPRESS)
    parser.take_other("json", help=Kind.OPTION_JSON()).take("debug")
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: _told(given))


def _told(given: argparse.Namespace) -> int:
    """Compare; where that cannot be done, a program finds that in its file too."""
    try:
        if given.further:
            raise UserError(Kind.RESULTS_NOT_TWO(count=2 + len(given.further)))
        paths = (given.old, given.new)
        found = c.compare(*map(read, paths), *paths)
    except UserError as error:
        with suppress(UserError, OSError):
            if given.json is not None:
                write_json(given.json, {"schema": SCHEMA, "exit_code": 2, "error": str(error)})
        raise
    differing = c.differences(found)
    if given.json is not None:
        write_json(given.json, document(found, differing, *paths))
    show(found, differing)
    return found.exit_code


# ---- --json -------------------------------------------------------------------------------------


def document(
    found: c.Compared, differing: Sequence[c.Difference], old: Path, new: Path
) -> dict[str, object]:
    """Return what --json writes: all but the rows that are as before."""
    return {
        "schema": SCHEMA,
        "exit_code": found.exit_code,
        "sentence": str(_counts(found)),
        "before": str(old),
        "after": str(new),
        "counts": {what: len(found.of(what)) for what in c.CHANGES},
        "surroundings": [{**asdict(one), "of": list(map(_named, one.of))} for one in differing],
        "results": [
            {
                **_named(name),
                "before": _result(found.old.get(name)),
                "after": _result(found.new.get(name)),
            }
            for name in found.names
        ],
        "rows": [
            {
                **_named(change.name),
                "key": change.key,
                "change": change.what,
                "before": change.before,
                "after": change.after,
            }
            for change in found.changes
            if change.what != c.SAME
        ],
    }


def _named(name: Name) -> dict[str, object]:
    return dict(zip(("step", "other", "model"), name, strict=True))


def _result(found: Found | None) -> dict[str, object] | None:
    if found is None:
        return None
    told = {"verdict": found.verdict, "exit_code": found.exit_code}
    return told | {"guide_passed": found.guide_passed, "rows": len(found.rows)}


# ---- the terminal -------------------------------------------------------------------------------


def show(found: c.Compared, differing: Sequence[c.Difference]) -> None:
    """Print what got worse first, a table each, and the sentence."""
    for whats, title in _TABLES.items():
        _rows(found.of(*whats), title)
    table = _table(
        *(Kind.TABLE_STEPS(), Kind.COLUMN_STEP(), Kind.COLUMN_VERDICT(), Kind.COLUMN_GUIDE()),
        Kind.COLUMN_BECAME(),
    )
    for name in found.names:
        both = found.old.get(name), found.new.get(name)
        verdict = _was_and_is(*(one.verdict if one else c.WITHOUT for one in both))
        guide = _was_and_is(*(guide_word(one.guide_passed) if one else c.WITHOUT for one in both))
        table.add_row(_step(name), _coloured(verdict, both[1]), guide, _counts(found, name))
    terminal.show_table(table)
    if differing:
        columns = Kind.COLUMN_WHAT(), Kind.COLUMN_SIDE(), Kind.COLUMN_BEFORE(), Kind.COLUMN_NOW()
        table = _table(Kind.TABLE_AROUND(), *columns, Kind.COLUMN_OF())
        for one in differing:
            is_all = len(one.of) == len(found.common)
            steps = Kind.STEPS_ALL() if is_all else Kind.TOLD(parts=list(map(c.titled, one.of)))
            cells = (one.what, one.side or c.WITHOUT, one.before, one.after, steps)
            table.add_row(*(escape(in_language(visible(cell))) for cell in cells))
        terminal.show_table(table)
    else:
        terminal.say(Kind.AROUND_NOTHING())
    headline, colour = _headline(found, bool(differing))
    line = Text(in_language(Kind.TOLD_LAST(parts=[headline, _counts(found)])))
    line.stylize(f"bold {colour}", 0, len(in_language(headline)))
    terminal.say(line)


def _headline(found: c.Compared, differs: bool) -> tuple[str, str]:
    """Return the last line's first words, and their colour: green where nothing is left to do."""
    worse, better = found.of(*c.WORSE), found.of(*c.BETTER)
    if worse:
        return Kind.GOT_WORSE(count=len(worse)), "red"
    is_red = any(one.exit_code for one in found.new.values()) or found.of(c.GONE)
    colour = "yellow" if is_red or found.old.keys() - found.new.keys() else "green"
    if better:
        return Kind.GOT_BETTER(count=len(better)), colour
    same = len(found.of(c.STILL, c.SAME)) == len(found.changes)
    same = same and found.old.keys() == found.new.keys() and not differs
    return Kind.CHANGED_NOTHING() if same else Kind.WORSE_NOTHING(), colour


def _counts(found: c.Compared, name: Name | None = None) -> str:
    """Return `1 worse, 3 better, 515 as before`, of one result's rows or of all."""
    if name is not None and name not in found.common:
        where = Kind.IN_FIRST_ALONE() if name in found.old else Kind.IN_SECOND_ALONE()
        failing = len(found.of(*c.WORSE, name=name))
        return Kind.TOLD(parts=[where, *([Kind.COUNT_FAIL(count=failing)] if failing else [])])
    counts = ((kind, len(found.of(*whats, name=name))) for whats, kind in _COUNTS.items())
    parts = [kind(count=count) for kind, count in counts if count]
    if name is None:
        parts += [
            Kind.STEP_ALONE(step=c.titled(one), where=_counts(found, one))
            for one in found.names
            if one not in found.common
        ]
    return Kind.TOLD(parts=parts)


def _rows(changes: Sequence[c.Change], title: str) -> None:
    """Show a table of rows, each in the colour of its verdict now."""
    if not changes:
        return
    columns = Kind.COLUMN_TENSOR(), Kind.COLUMN_VERDICT(), Kind.COLUMN_LIMIT_BEFORE()
    table = _table(title, Kind.COLUMN_STEP(), *columns, Kind.COLUMN_NOW(), Kind.COLUMN_ELSE())
    for change in changes[:SHOWN_ROWS]:
        was, now = (row["verdict"] if row else c.WITHOUT for row in (change.before, change.after))
        colour = "red" if change.what in c.WORSE else COLOURS.get(now, "white")
        row = change.after or change.before
        table.add_row(
            _step(change.name),
            escape(visible(change.key)),
            f"[{colour}]{_was_and_is(was, now)}[/{colour}]",
            _of_limit(change.before),
            _of_limit(change.after),
            Kind.STARTS_HERE() if row["origin"] else "",
        )
    terminal.show_table(table)
    if len(changes) > SHOWN_ROWS:
        terminal.say(Kind.ROWS_FURTHER(count=len(changes) - SHOWN_ROWS))


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _step(name: Name) -> str:
    return escape(visible(c.titled(name)))


def _was_and_is(was: str, now: str) -> str:
    return was if was == now else f"{was} → {now}"


def _coloured(verdict: str, now: Found | None) -> str:
    colour = COLOURS[now.verdict] if now else "white"
    return f"[{colour}]{verdict}[/{colour}]"


def _of_limit(row: Row | None) -> str:
    """Return `3.1e-05 / 7.2e-12`: the float64 gap, and what is allowed of it."""
    if row is None or (row["gap"] is None and row["allowed"] is None):
        return "0" if row and row["verdict"] in AGREEING else c.WITHOUT
    return f"{number(row['gap'] or 0.0)} / {number(row['allowed'])}"
