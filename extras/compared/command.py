"""Compare two results: what a mend did, or a new version of a framework.

    twincheck report OLD NEW [--json FILE]

Each is a folder of results (a step's, a pair's log/, what --out of a check names), a pair's folder
or a bundle, which is verified first.  Nothing is run or judged: what both say is compared, row by
row, and what they were made in and of.  A row got worse where its verdict did.

Exit status: 0 nothing got worse, 1 something did, 2 they cannot be compared.
"""

import argparse
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

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
Cell = str | tuple[str, str]  # what it says, and its style
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
    parser.take_other("json", help=Kind.OPTION_JSON()).take("debug")
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: _told(given))


def _told(given: argparse.Namespace) -> int:
    """Compare; where that cannot be done, a program finds that in its file too."""
    try:
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
    tensor, now = Kind.COLUMN_TENSOR(), Kind.COLUMN_NOW()
    of_rows = (tensor, Kind.COLUMN_VERDICT(), Kind.COLUMN_LIMIT_BEFORE(), now, Kind.COLUMN_ELSE())
    for whats, title in _TABLES.items():
        changes = found.of(*whats)
        _table(title, (Kind.COLUMN_STEP(), *of_rows), map(_row, changes[:SHOWN_ROWS]))
        if len(changes) > SHOWN_ROWS:
            terminal.say(Kind.ROWS_FURTHER(count=len(changes) - SHOWN_ROWS))
    of_steps = (Kind.COLUMN_VERDICT(), Kind.COLUMN_GUIDE(), Kind.COLUMN_BECAME())
    rows = [_of_result(found, name) for name in found.names]
    _table(Kind.TABLE_STEPS(), (Kind.COLUMN_STEP(), *of_steps), rows)
    around = (Kind.COLUMN_WHAT(), Kind.COLUMN_SIDE(), Kind.COLUMN_BEFORE(), now, Kind.COLUMN_OF())
    rows = []
    for one in differing:
        is_all = len(one.of) == len(found.common)
        steps = Kind.STEPS_ALL() if is_all else Kind.TOLD(parts=list(map(c.titled, one.of)))
        side = Kind.BOTH_SIDES() if one.side == c.BOTH else one.side or c.WITHOUT
        rows.append((one.what, side, one.before, one.after, steps))
    _table(Kind.TABLE_AROUND(), around, rows)
    if not differing:
        terminal.say(Kind.AROUND_NOTHING())
    headline, colour = _headline(found, bool(differing))
    line = Text(in_language(Kind.TOLD_LAST(parts=[headline, _counts(found)])))
    line.stylize(f"bold {colour}", 0, len(in_language(headline)))
    terminal.say(line)


def _table(title: str, headings: Iterable[str], rows: Iterable[Iterable[Cell]]) -> None:
    """Show a table, if it has rows."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = ((cell, "") if isinstance(cell, str) else cell for cell in row)
        table.add_row(*(Text(in_language(visible(said)), style) for said, style in cells))
    if table.row_count:
        terminal.show_table(table)


def _row(change: c.Change) -> tuple[Cell, ...]:
    """A row's cells, in the colour of its verdict now."""
    was, now = (row["verdict"] if row else c.WITHOUT for row in (change.before, change.after))
    colour = "red" if change.what in c.WORSE else COLOURS.get(now, "white")
    limits = map(_of_limit, (change.before, change.after))
    starts = Kind.STARTS_HERE() if (change.after or change.before)["origin"] else ""
    return c.titled(change.name), change.key, (_was_and_is(was, now), colour), *limits, starts


def _of_result(found: c.Compared, name: Name) -> tuple[Cell, ...]:
    both = found.old.get(name), found.new.get(name)
    verdict = _was_and_is(*(one.verdict if one else c.WITHOUT for one in both))
    guide = _was_and_is(*(guide_word(one.guide_passed) if one else c.WITHOUT for one in both))
    colour = COLOURS[both[1].verdict] if both[1] else "white"
    return c.titled(name), (verdict, colour), guide, _counts(found, name)


def _of_limit(row: Row | None) -> str:
    """Return `3.1e-05 / 7.2e-12`: the float64 gap, and what is allowed of it."""
    if row is None or (row["gap"] is None and row["allowed"] is None):
        return "0" if row and row["verdict"] in AGREEING else c.WITHOUT
    return f"{number(row['gap'] or 0.0)} / {number(row['allowed'])}"


def _was_and_is(was: str, now: str) -> str:
    return was if was == now else f"{was} → {now}"


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
