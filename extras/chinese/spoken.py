"""What the core asks of a language where text goes out to people: a console's, and a page's.

Which language that is, gettext's variables say, in its order: LANGUAGE, which `--lang` sets, then
the locale.  English is the language of all else.
"""

import os
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from twincheck.extras.chinese.catalogue import Catalogue, catalogue

_SAID_BY = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


def language() -> str:
    """`zh` where people read Chinese, else `en`."""
    said = next(filter(None, map(os.environ.get, _SAID_BY)), "")
    return "zh" if said.startswith("zh") else "en"


def translated(text: str) -> str:
    """A text in Chinese, or as it is where the catalogue has none of it."""
    return catalogue().translated(text)


def shown(what: object) -> object:
    """What a console is to print, in the language that people read."""
    if language() != "zh" or not _has_letters(sys.stdout.encoding):
        return what
    if isinstance(what, str):
        return _text(Text.from_markup(what))
    if isinstance(what, Text):
        return _text(what)
    what = deepcopy(what)  # which is kept in English
    if isinstance(what, Padding):
        what.renderable = shown(what.renderable)
    elif isinstance(what, Table):
        _table(what)
    return what


def _has_letters(encoding: str | None) -> bool:
    """Whether an output can be given Chinese at all."""
    try:
        return bool("中".encode(encoding or "utf-8"))
    except (UnicodeEncodeError, LookupError):
        return False


def _text(text: Text) -> Text:
    """A text in Chinese, with its styles where what they are of stands in it too."""
    said = Text(translated(text.plain), style=text.style, no_wrap=text.no_wrap)
    for span in text.spans:
        part = text.plain[span.start : span.end]
        shown_as = (part, translated(part), translated(part.rstrip(":")))
        found = next((one for one in shown_as if one in said.plain), "")
        if part.strip() == text.plain.strip():
            said.stylize(span.style)
        elif found:
            at = said.plain.find(found)
            said.stylize(span.style, at, at + len(found))
    return said


def _table(table: Table) -> None:
    """Its title, its headings, and its cells; a single word in the first column is a name."""
    if table.title:
        table.title = shown(table.title)
    for number, column in enumerate(table.columns):
        column.header = shown(column.header)
        column._cells = [
            shown(cell) if number or " " in str(cell) else cell for cell in column._cells
        ]


def on_a_page() -> Iterator[tuple[str, dict[str, object]]]:
    """The script that a page is given, and what it reads: sentences, and in which to begin."""
    # Those of several lines are --help's.
    known = Catalogue(tuple(one for one in catalogue().entries if "\n" not in one.chinese))
    templates = [[part, text.replace("(?P<", "(?<"), said] for part, text, said in known.templates]
    words = {"exact": known.exact, "templates": templates}
    yield (
        Path(__file__).with_name("page.js").read_text(encoding="utf-8"),
        {"words": words, "language": language()},
    )
