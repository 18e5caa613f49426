"""What a pair was set up with, kept in its folder: `--update` sets it up again from that.

The texts as they were written tell what the user has edited since.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from twincheck.common.pair.pairs import RECORD
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.json_file import load_json, write_json
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.spec import parse_spec

_LISTS = ("input", "set", "torch_set", "paddle_set")
_PATHS = ("config", "paconvert_python")
_SPECS = ("torch", "paddle", "torch_config", "paddle_config")


def words_of(given: argparse.Namespace) -> list[str]:
    """The command's options as words that mean the same in any folder."""
    words = []
    for name in (*_SPECS, *_PATHS, *_LISTS, "loader", "seed"):
        value, option = getattr(given, name), f"--{name.replace('_', '-')}"
        if not value:
            continue
        if value is True:
            words.append(option)
        elif name in _LISTS:
            words += [option, *value]
        elif name in _PATHS:
            words += [option, _absolute(value)]
        else:
            words += [option, _anywhere(option, str(value)) if name in _SPECS else str(value)]
    return words


def _absolute(path: str | Path) -> str:
    return str(Path(path).expanduser().absolute())


def _anywhere(option: str, text: str) -> str:
    return str(parse_spec(option, text)) if text.rpartition(":")[0].endswith(".py") else text


def read_record(folder: Path) -> dict:
    """`words`, `pythons` and `texts` of a pair's record; raises UserError where there is none."""
    if not folder.is_dir():
        raise UserError(Kind.FOLDER_MISSING(folder=str(folder)))
    if not (folder / RECORD).is_file():
        said = {"folder": str(folder), "record": RECORD, "command": to_type("new")}
        raise UserError(Kind.RECORD_MISSING(**said))
    told = load_json(folder / RECORD)
    words, texts = told.get("words"), told.get("texts")
    if not isinstance(words, list) or not isinstance(texts, dict):
        said = {"record": str(folder / RECORD), "command": to_type("new")}
        raise UserError(Kind.RECORD_UNREADABLE(**said))
    return told


def write_pair(
    folder: Path,
    texts: Mapping[str, str],
    words: list[str],
    pythons: Mapping[str, str | None],
    former: Mapping[str, str] | None = None,
) -> list[str]:
    """Write a pair's files and its record; returns those that the user has edited and that stay.

    pythons  side -> the Python that was named for it
    former   the texts as they were written last; None: whatever is there is overwritten
    """
    kept = []
    for name, text in texts.items():
        path = folder / name
        there = path.read_text(encoding="utf-8") if path.is_file() else None
        written = None if former is None else former.get(name)
        if former is not None and there not in (None, text, written):
            kept.append(name)
        else:
            write_text(path, text)
    told = {side: _absolute(python) for side, python in pythons.items() if python}
    write_json(folder / RECORD, {"words": words, "pythons": told, "texts": dict(texts)})
    return kept
