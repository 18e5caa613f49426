"""compared.html: two results beside each other, on one page in the style of a check's report.

It has no script.  All that comes from a result is put in as text, which Jinja2 escapes.
"""

import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from twincheck.common.report import html_page, html_words
from twincheck.common.report.html_rows import reasons_of
from twincheck.common.system.door import to_install
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.verdict.row import Row
from twincheck.extras.compared import Kind, words
from twincheck.extras.compared import compare as c
from twincheck.extras.compared.compare import Compared
from twincheck.extras.compared.surroundings import Difference

FILE = "compared.html"
FIRST_ROWS, MOST_ROWS = 10, 300  # of a section: open, and folded too; --json has all
MOST_CHARACTERS = 600  # of a note
_HERE = Path(__file__).parent
_REPORT = Path(html_page.__file__).parent / "page"
# What a row is that became that, as the page's style has it; of another its verdict says it.
_TONES = {**dict.fromkeys(c.WORSE, "bad"), c.STILL: "bad", c.GONE: "mind"}
_MARKS = {"bad": "DIVERGED", "mind": "PRECISION", "good": "ROUNDING"}


def write(
    path: Path, found: Compared, differing: Sequence[Difference], alike: Sequence[str]
) -> None:
    """Write the page, whole or not at all; raises UserError where it cannot."""
    try:
        content = page(found, differing, alike).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise UserError(Kind.PAGE_NOT_WRITTEN(path=str(path), error=str(error.strerror))) from None
    except ImportError as error:
        command = to_install(error.name)
        raise UserError(Kind.PACKAGE_MISSING(package=error.name, command=command)) from None


def page(found: Compared, differing: Sequence[Difference], alike: Sequence[str]) -> str:
    """The page's text."""
    style = "".join((p / "style.css").read_text("utf-8") for p in (_REPORT, _HERE))
    sections = [
        (what, heading, changes)
        for what, heading in words.HEADINGS.items()
        if (changes := found.of(what))
    ]
    titled = partial(c.titled, more_models=len(found.models) > 1)
    return _template().render(
        lang=getattr(html_words.read(), "TAG", "en"),
        found=found,
        differing=differing,
        alike=alike,
        sections=sections,
        first=FIRST_ROWS,
        most=MOST_ROWS,
        bad=[cause for cause in found.causes if cause.what != c.FOUND_NO_MORE],
        mended=[cause for cause in found.causes if cause.what == c.FOUND_NO_MORE],
        names=words.worst_first(found),
        pairs=found.models,
        titled=titled,
        titled_all=lambda names: list(map(titled, names)),
        mark_of=_MARKS[found.tone],
        tone_of_rows=_TONES,
        worse=c.WORSE,
        failing_as_before=c.STILL,
        factor=c.FACTOR,
        words=words,
        written=time.strftime("%Y-%m-%d %H:%M:%S %z"),
        style=style,
    )


@cache
def _template():
    made = html_page.templates(_HERE, words=html_words.readers)
    sides = {"": lambda: "–", "both": Kind.PAGE_BOTH_SIDES} | html_words.SIDE_NAMES
    made.globals.update(Kind=Kind, note_of=_note, sides=sides)
    return made.get_template("page.html.j2")


def _note(row: Row) -> str:
    return html_words.readers().texts(reasons_of(row))[0][:MOST_CHARACTERS]
