"""The lines of a source around a place that a sidecar names.

A sidecar is anybody's text, and what is read here is shown and sent on: only Python files are read,
and never a file that climbs out of the checkout by `..`.
"""

import re
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain

_PLACE = re.compile(r"(?P<file>[^\0\n]+?\.py):(?P<line>\d{1,7})(?: \(.*\))?", re.DOTALL)
_MOST_BYTES = 4 << 20  # of a source file
_MOST_CHARACTERS = 400  # of a line


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of a source."""

    number: int
    text: str  # without its end
    here: bool  # the place itself, not its context
    path: Path  # of the file


def source_context(place: str, before: int = 2, after: int = 2) -> tuple[SourceLine, ...]:
    """The line that `file:line` names, with its context; empty where it cannot be read.

    place   as a sidecar has it: below the checkout, below an installed package, or a full path;
            what stands in brackets behind it is passed over
    """
    parts = _PLACE.fullmatch(place)
    if parts is None:
        return ()
    wanted = int(parts["line"])
    for path in _candidates(parts["file"]):
        lines = _lines(path)
        if 0 < wanted <= len(lines):
            first, last = max(1, wanted - before), min(len(lines), wanted + after)
            return tuple(
                SourceLine(number, lines[number - 1], number == wanted, path)
                for number in range(first, last + 1)
            )
    return ()


def _candidates(file: str) -> list[Path]:
    """List the paths a place's file may have: in the checkout, in a package, or as it says."""
    path = Path(file)
    if ".." in path.parts:
        return []
    if path.is_absolute():
        return [path]
    return [ROOT / path, *(Path(folder) / path for folder in _installed())]


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys((paths["purelib"], paths["platlib"])))


@lru_cache(maxsize=256)
def _lines(path: Path) -> tuple[str, ...]:
    """A file's lines; none where it cannot be read, or is too large to be a source."""
    try:
        with open_plain(path, links=True) as file:
            content = file.read(_MOST_BYTES + 1)
    except (UserError, OSError):
        return ()
    if len(content) > _MOST_BYTES:
        return ()
    lines = content.decode("utf-8", errors="replace").removesuffix("\n").split("\n")
    return tuple(line.rstrip("\r")[:_MOST_CHARACTERS] for line in lines)
