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
from twincheck.extras.compared.read import Name, Row, read

SCHEMA = "twincheck-compared/1"
# What became of rows -> how they are counted, and the title of their table, where they have one.
_KINDS = {
    c.WORSE: (Kind.COUNT_WORSE, Kind.TABLE_WORSE()),
    (c.STILL,): (Kind.COUNT_FAIL_STILL, Kind.TABLE_FAIL_STILL()),
    c.BETTER: (Kind.COUNT_BETTER, Kind.TABLE_BETTER()),
    (c.GONE,): (Kind.COUNT_GONE, Kind.IN_FIRST_ALONE()),
    (c.NEW,): (Kind.COUNT_NEW, Kind.IN_SECOND_ALONE()),
    (c.SAME,): (Kind.COUNT_AS_BEFORE, ""),
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
    paths = given.old, given.new
    try:
        found = c.compare(*map(read, paths), *paths)
    except UserError as error:
        with suppress(UserError, OSError):
            if given.json is not None:
                write_json(given.json, {"schema": SCHEMA, "exit_code": 2, "error": str(error)})
        raise
    differing, status = c.differences(found), int(bool(found.of(*c.WORSE)))
    if given.json is not None:
        told = {"schema": SCHEMA, "exit_code": status, "sentence": str(_counts(found))}
        told |= {"before": str(given.old), "after": str(given.new)}
        write_json(given.json, told | _document(found, differing))
    _show(found, differing)
    return status


def _document(found: c.Compared, differing: Sequence[c.Difference]) -> dict[str, object]:
    """Return what --json lists: all but the rows that are as before."""
    around = [one._asdict() | {"of": [name._asdict() for name in one.of]} for one in differing]
    results = []
    for name in found.names:
        before, after = found.in_short(name)
        results.append(name._asdict() | {"before": before, "after": after})
    rows = [one._asdict() for one in found.changes if one.change != c.SAME]
    rows = [row.pop("name")._asdict() | row for row in rows]
    counts = {what: len(found.of(what)) for what in c.CHANGES}
    return {"counts": counts, "surroundings": around, "results": results, "rows": rows}


def _show(found: c.Compared, differing: Sequence[c.Difference]) -> None:
    """Print what got worse first, a table each, and the sentence."""
    step, verdict, now = Kind.COLUMN_STEP(), Kind.COLUMN_VERDICT(), Kind.COLUMN_NOW()
    limit, further = Kind.COLUMN_LIMIT_BEFORE(), Kind.COLUMN_ELSE()
    for whats, (_, title) in _KINDS.items():
        changes = found.of(*whats) if title else []
        headings = step, Kind.COLUMN_TENSOR(), verdict, limit, now, further
        _table(title, headings, map(_row, changes[:SHOWN_ROWS]))
        if len(changes) > SHOWN_ROWS:
            terminal.say(Kind.ROWS_FURTHER(count=len(changes) - SHOWN_ROWS))
    headings = step, verdict, Kind.COLUMN_GUIDE(), Kind.COLUMN_BECAME()
    rows = []
    for name in found.names:
        both = found.in_short(name)
        verdicts = [told["verdict"] if told else c.WITHOUT for told in both]
        guide = _was_and_is(*(guide_word(told and told["guide_passed"]) for told in both))
        said = Text(_was_and_is(*verdicts), COLOURS.get(verdicts[1], "white"))
        rows.append((name.title, said, guide, _counts(found, name)))
    _table(Kind.TABLE_STEPS(), headings, rows)
    rows = []
    for what, side, before, after, names in differing:
        steps = Kind.TOLD(parts=[name.title for name in names])
        steps = Kind.STEPS_ALL() if names == found.common else steps
        side = Kind.BOTH_SIDES() if side == "both" else side or c.WITHOUT
        rows.append((what, side, before, after, steps))
    headings = Kind.COLUMN_WHAT(), Kind.COLUMN_SIDE(), Kind.COLUMN_BEFORE(), now, Kind.COLUMN_OF()
    _table(Kind.TABLE_AROUND(), headings, rows)
    if not differing:
        terminal.say(Kind.AROUND_NOTHING())
    headline, colour = _headline(found, bool(differing))
    line = Text(in_language(Kind.TOLD_LAST(parts=[headline, _counts(found)])))
    line.stylize(f"bold {colour}", 0, len(in_language(headline)))
    terminal.say(line)


def _table(title: str, headings: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> None:
    """Show a table, if it has rows."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(of if type(of) is Text else Text(in_language(visible(of))) for of in row))
    if table.row_count:
        terminal.show_table(table)


def _row(change: c.Change) -> tuple[str | Text, ...]:
    """A row's cells, in the colour of its verdict now."""
    was, now = (row["verdict"] if row else c.WITHOUT for row in (change.before, change.after))
    colour = "red" if change.change in c.WORSE else COLOURS.get(now, "white")
    limits = map(_of_limit, (change.before, change.after))
    starts = Kind.STARTS_HERE() if (change.after or change.before)["origin"] else ""
    return change.name.title, change.key, Text(_was_and_is(was, now), colour), *limits, starts


def _of_limit(row: Row | None) -> str:
    """Return `3.1e-05 / 7.2e-12`: the float64 gap, and what is allowed of it."""
    if row is None or (row["gap"] is None and row["allowed"] is None):
        return "0" if row and row["verdict"] in AGREEING else c.WITHOUT
    return f"{number(row['gap'] or 0.0)} / {number(row['allowed'])}"


def _was_and_is(was: str, now: str) -> str:
    return was if was == now else f"{was} → {now}"


def _headline(found: c.Compared, differs: bool) -> tuple[str, str]:
    """Return the last line's first words, and their colour: green where nothing is left to do."""
    if worse := found.of(*c.WORSE):
        return Kind.GOT_WORSE(count=len(worse)), "red"
    is_red = any(one.told["exit_code"] for one in found.new.values()) or found.of(c.GONE)
    colour = "yellow" if is_red or found.old.keys() - found.new.keys() else "green"
    if better := found.of(*c.BETTER):
        return Kind.GOT_BETTER(count=len(better)), colour
    changed = differs or found.common != found.names or found.of(c.GONE, c.NEW)
    return Kind.WORSE_NOTHING() if changed else Kind.CHANGED_NOTHING(), colour


def _counts(found: c.Compared, name: Name | None = None) -> str:
    """Return `1 worse, 3 better, 515 as before`, of one result's rows or of all."""
    if name is not None and name not in found.common:
        where = Kind.IN_FIRST_ALONE() if name in found.old else Kind.IN_SECOND_ALONE()
        failing = len(found.of(*c.WORSE, name=name))
        return Kind.TOLD(parts=[where, *([Kind.COUNT_FAIL(count=failing)] if failing else [])])
    counts = ((kind, len(found.of(*whats, name=name))) for whats, (kind, _) in _KINDS.items())
    parts = [kind(count=count) for kind, count in counts if count]
    alone = [] if name else [one for one in found.names if one not in found.common]
    parts += [Kind.STEP_ALONE(step=one.title, where=_counts(found, one)) for one in alone]
    return Kind.TOLD(parts=parts)
