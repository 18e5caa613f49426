"""Chinese: what the core asks of a language, where text goes out to people.

zh.po has a message for each template of the lists of reasons, and for each constant text, in the
ordinary way of gettext: msgid is the English one.  Which language people read, gettext's variables
say, in its order: LANGUAGE, which `--lang` sets, then the locale.
"""

import argparse
import ast
import os
import re
import sys
from functools import cache
from pathlib import Path
from unicodedata import east_asian_width

from twincheck.common.system.extras import described, in_language
from twincheck.common.system.reasons import Language

# What the page calls it: a code, HTML's, and its own name.
CODE, TAG, NAME = "zh", "zh-CN", "中文"
_SAID_BY = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


def read_po(path: Path) -> dict[str, str]:
    """Return the messages of a .po file but for its header; raises ValueError for what is none."""
    found: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        parts: dict[str, str] = {}
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if not line.startswith('"'):
                name, _, line = line.partition(" ")
            parts[name] = parts.get(name, "") + ast.literal_eval(line)
        if parts.get("msgid"):
            found[parts["msgid"]] = parts["msgstr"]
    return found


@cache
def messages() -> dict[str, str]:
    """Return those of zh.po, which lies beside this file in a checkout and in a package."""
    return read_po(Path(__file__).with_name("zh.po"))


def template(english: str) -> str:
    """Return a template in Chinese, or as it is where zh.po has none of it."""
    return messages().get(english, english)


_JOINTS = {"": "；", "and": " 和 ", "or": " 或 ", "comma": "、", "space": " ", "lines": "\n"}
LANGUAGE = Language(template, _JOINTS | {"dots": " · ", "listed": "、", "last": " 和 "})


def language() -> str:
    """`zh` where people read Chinese, else `en`."""
    said = next(filter(None, map(os.environ.get, _SAID_BY)), "")
    return CODE if said.startswith(CODE) else "en"


def speaks() -> bool:
    """True where people read Chinese, and the output can be given it.

    What is kept instead of printed (io.StringIO has no encoding) stays English.
    """
    encoding = getattr(sys.stdout, "encoding", None)
    try:
        return language() == CODE and encoding is not None and bool("中".encode(encoding))
    except (UnicodeEncodeError, LookupError):
        return False


class Help(argparse.RawDescriptionHelpFormatter):
    """A command's --help, in the language that people read."""

    def start_section(self, heading):
        """A group of options."""
        super().start_section(heading and in_language(heading))

    def _fill_text(self, text, width, indent):
        return super()._fill_text(described(text), width, indent)

    def _get_help_string(self, action):
        return in_language(action.help)

    def _split_lines(self, text, width):
        cells = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
        return super()._split_lines(text, width * len(text) // max(1, cells))


# Where argparse looks up its own messages.
argparse._ = lambda english: template(english) if speaks() else english
