"""What the core asks of a language where text goes out to people.

Which language that is, gettext's variables say, in its order: LANGUAGE, which `--lang` sets, then
the locale.  English is the language of all else.  rich, which not every command needs, is imported
where its texts are met.
"""

import argparse
import os
import sys
from copy import deepcopy
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from twincheck.common.system.reasons import Language, Reason
from twincheck.extras.chinese.catalogue import catalogue

if TYPE_CHECKING:  # a command that needs NumPy alone is spoken too, where there is no rich
    from rich.table import Table
    from rich.text import Text

# What the page calls it: a code, HTML's, and its own name.
CODE, TAG, NAME = "zh", "zh-CN", "中文"
_SAID_BY = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


def language() -> str:
    """`zh` where people read Chinese, else `en`."""
    said = next(filter(None, map(os.environ.get, _SAID_BY)), "")
    return "zh" if said.startswith("zh") else "en"


def translated(text: str) -> str:
    """A text in Chinese, or as it is where the catalogue has none of it."""
    return catalogue().translated(text)


def template(english: str) -> str:
    """A template in Chinese, or as it is where zh.po has none of it."""
    return catalogue().exact.get(english, english)


JOINTS = {"": "；", "and": "和", "comma": "、", "space": " ", "lines": "\n", "dots": " · "}
LANGUAGE = CHINESE = Language(template, JOINTS | {"listed": "、", "last": "和"})


def said(text: str) -> str:
    """A text in the language that people read, where the output can be given it.

    What is kept instead of printed (io.StringIO has no encoding) stays English.
    """
    encoding = getattr(sys.stdout, "encoding", None)
    speaks = language() == "zh" and encoding is not None and _has_letters(encoding)
    if isinstance(text, Reason):
        return CHINESE.said(text) if speaks else text
    return translated(text) if speaks else text


class Help(argparse.RawDescriptionHelpFormatter):
    """A command's --help, in the language that people read."""

    def add_usage(self, usage, actions, groups, prefix=None):
        """How it is called."""
        super().add_usage(usage, actions, groups, prefix or said("usage: "))

    def start_section(self, heading):
        """A group of options."""
        super().start_section(heading and said(heading))

    def _fill_text(self, text, width, indent):
        return super()._fill_text(said(text), width, indent)

    def _split_lines(self, text, width):
        text = said(text)
        cells = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
        return super()._split_lines(text, width * len(text) // max(1, cells))


def shown(what: object) -> object:
    """What a console is to print, in the language that people read."""
    if language() != "zh" or not _has_letters(sys.stdout.encoding):
        return what
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if isinstance(what, str):
        return _text(Text.from_markup(what, emoji=False))
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


def _text(text: "Text") -> "Text":
    """A text in Chinese, with its styles where what they are of stands in it too."""
    chinese = type(text)(translated(text.plain), style=text.style, no_wrap=text.no_wrap)
    for span in text.spans:
        part = text.plain[span.start : span.end]
        shown_as = (part, translated(part), translated(part.rstrip(":")))
        found = next((one for one in shown_as if one in chinese.plain), "")
        if part.strip() == text.plain.strip():
            chinese.stylize(span.style)
        elif found:
            at = chinese.plain.find(found)
            chinese.stylize(span.style, at, at + len(found))
    return chinese


def _table(table: "Table") -> None:
    """Its title, its headings, and its cells; a single word in the first column is a name."""
    if table.title:
        table.title = shown(table.title)
    for number, column in enumerate(table.columns):
        column.header = shown(column.header)
        column._cells = [
            shown(cell) if number or " " in str(cell) else cell for cell in column._cells
        ]
