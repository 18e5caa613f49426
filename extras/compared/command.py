"""What a mend did, or a new version of a framework: two results beside each other.

    twincheck report OLD NEW [--out FILE] [--json FILE] [--no-report]

Each is a folder of results (a step's, a pair's log/, what --out of a check names), a pair's folder
or a bundle, which is verified first.  Nothing is run or judged: what both say is compared, row by
row, and what they were made in and of.  A row got worse where its verdict did.

Exit status: 0 nothing got worse, 1 something did, 2 they cannot be compared.
"""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from twincheck.common.check.options import Parser
from twincheck.common.report import terminal
from twincheck.common.report.commands import shown
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.extras.compared import Kind, page, words
from twincheck.extras.compared.compare import compare
from twincheck.extras.compared.document import document, refused
from twincheck.extras.compared.read import read
from twincheck.extras.compared.show import show
from twincheck.extras.compared.surroundings import alike, differences

_COLOURS = {"good": "green", "mind": "yellow", "bad": "red"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "report")
    for name in ("old", "new"):
        parser.add_argument(name, type=Path, metavar=name.upper(), help=Kind.OPTION_RESULT())
    parser.add_argument("further", nargs="*", help=argparse.SUPPRESS)
    parser.take_other("out", metavar="FILE", type=Path, help=Kind.OPTION_OUT())
    parser.take_other("json", help=Kind.OPTION_JSON())
    parser.take_other("no-report", help=Kind.OPTION_NO_REPORT()).take("debug")
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: _told(given))


def _told(given: argparse.Namespace) -> int:
    """Compare; where that cannot be done, a program finds that in its file too."""
    try:
        return _compare(given)
    except UserError as error:
        with suppress(UserError, OSError):
            if given.json is not None:
                write_json(given.json, refused(str(error)))
        raise


def _compare(given: argparse.Namespace) -> int:
    if given.further:
        raise UserError(Kind.RESULTS_NOT_TWO(count=2 + len(given.further)))
    with terminal.progress() as on_progress:
        told = []
        for path in (given.old, given.new):
            on_progress(Kind.RESULT_READ(path=str(path)))
            told.append(read(path))
        found = compare(*told)
    differing, same = differences(*told), alike(*told)
    if given.json is not None:
        write_json(given.json, document(found, differing))
    show(found, differing, same)
    written = None if given.no_report else _write_page(given.out, found, differing, same)
    headline = words.headline(found)
    parts = [headline, words.sentence(found), shown(written) if written else ""]
    line = Text(in_language(Kind.TOLD_LAST(parts=parts)))
    line.stylize(f"bold {_COLOURS[found.tone]}", 0, len(in_language(headline)))
    terminal.say(line)
    return found.exit_code


def _write_page(path: Path | None, found, differing, same) -> Path | None:
    """Write the page; where it cannot be written, what was found stays."""
    new = found.new.path
    beside = new / page.FILE if new.is_dir() else new.with_name(f"{new.stem}-{page.FILE}")
    path = path or beside
    try:
        page.write(path, found, differing, same)
    except UserError as error:
        terminal.say(Kind.PAGE_MISSING(why=str(error)))
        return None
    return path
