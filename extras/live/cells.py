"""Cells of a notebook, or of IPython, as files: a page can show lines that lie in one.

What a cell defines says that it comes from a file which is not there; Python keeps its text in
linecache.  The caller writes that text beside the pair, and a fork's functions name the copy.
"""

import gc
import linecache
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType

from twincheck.extras.live import Kind

_COPY = re.compile(r"[^\s'\"]*/pair/\w+/cell-(\d+)\.py(?::(\d+))?")


def written(folder: Path) -> dict[str, str]:
    """File that a cell says it comes from -> its copy in a folder."""
    copies = {}
    for file, entry in list(linecache.cache.items()):
        number = _number_of(file) if len(entry) == 4 else None
        if number is not None:
            copy = folder / f"cell-{number}.py"
            copy.write_text("".join(entry[2]), encoding="utf-8")
            copies[file] = str(copy)
    return copies


def _number_of(file: str) -> str | None:
    """The number that stands beside a cell, as [5]; None for what is no cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    told = shell.compile.format_code_name(file) if shell is not None else None
    return re.sub(r"\D", "", told[1]) if told is not None else None


def in_words(text: str) -> str:
    """A text in which a place in a copy is called as its reader knows it: cell [5], line 3."""
    return _COPY.sub(_called, text)


def _called(at: re.Match) -> str:
    return Kind.CELL_LINE(cell=at[1], line=at[2]) if at[2] else Kind.CELL(cell=at[1])


def rename(copies: Mapping[str, str]) -> None:
    """Have every function of this process that comes from a cell say that it comes from its copy.

    This process is a fork of the caller, whose own functions stay as they are.
    """
    if not copies:
        return
    for value in gc.get_objects():
        if type(value) is FunctionType and value.__code__.co_filename in copies:
            value.__code__ = _renamed(value.__code__, copies)


def _renamed(code: CodeType, copies: Mapping[str, str]) -> CodeType:
    inner = (_renamed(c, copies) if type(c) is CodeType else c for c in code.co_consts)
    file = copies.get(code.co_filename, code.co_filename)
    return code.replace(co_filename=file, co_consts=tuple(inner))
