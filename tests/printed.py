"""The commands in what is printed, shown or written, and how one is run as it was printed.

    printed(text)        of a terminal, an error, a README: by its lines, `in backticks`, after `: `
    of_json(value)       of a document, by the names of its fields and in its sentences
    of_page(path)        of report.html: what its Copy buttons copy
    of_bundle(path)      of a bundle: its README, its manifest, its pages
    run(text, folder)    as typed there, by a shell; a CompletedProcess

What has a command's name and is none of these is a Printed of kind "loose": no reader could tell
where it ends, so that a test may say that there is none.
"""

import base64
import gzip
import html
import json
import os
import re
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twincheck.__main__ import commands

TIMEOUT_S = 280
# What a reader puts something in the place of: a command that has one is not run as it stands.
_PLACE = re.compile(r"^(?:[A-Z][A-Z0-9_]*|[\w-]+=[A-Z]+|…|.*[<\[\]].*|\.\.\.)$")


@dataclass(frozen=True)
class Printed:
    """A command that somebody may type."""

    text: str  # as it was printed
    words: tuple[str, ...]
    kind: str  # "line", "quoted", "rest", "next", "copy", "json", "loose"
    where: str  # what it was found in

    @property
    def program(self) -> str:
        """ "twincheck", "make", "pip", "pytest", or another program's name."""
        words = [Path(word).name for word in self.words]
        if "twincheck" in words[:3]:
            return "twincheck"
        if "-m" in words[:2]:
            return words[words.index("-m") + 1]
        return words[0]

    @property
    def command(self) -> str:
        """The command of `twincheck`; of its bare help, and of other programs, empty."""
        names = [Path(word).name for word in self.words[:3]]
        at = names.index("twincheck") + 1 if "twincheck" in names else len(self.words)
        return self.words[at] if self.words[at:] and self.words[at] in _names() else ""

    @property
    def is_form(self) -> bool:
        """Whether a part of it stands for what the reader has, such as DIR or KEY."""
        return any(map(_PLACE.match, self.words))


@cache
def _names() -> tuple[str, ...]:
    return tuple(commands())


_WORD = r"(?:'[^'\n]*'|[^\s'`()（）]+)"
_PYTHON = r"(?:'[^'\n]*/python[\d.]*'|(?:[^\s'`(（]*/)?python[\d.]*)"


@cache
def _begins() -> re.Pattern:
    """How a command begins: the door and one of its commands, make, pip, pytest."""
    names = "|".join(sorted(map(re.escape, _names()), key=len, reverse=True))
    door = rf"(?:{_PYTHON} (?:-m )?)?(?:'[^'\n]*/twincheck'|(?:[^\s'`(（]*/)?twincheck)"
    return re.compile(
        rf"(?<![\w/.'-])(?:{door} (?:--help\b|(?:{names})(?![\w.-]))"
        rf"|make (?:-C {_WORD} )?(?:install|paconvert|check)\b"
        rf"|{_PYTHON} -m (?:pip install|pytest|venv)\b)"
    )


def printed(text: str, where: str = "text") -> Iterator[Printed]:
    """The commands of a text, in their order; an escape of a terminal is not looked at."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\\\n", " ")
    for line in text.splitlines():
        yield from _of_line(line, where)


def _of_line(line: str, where: str) -> Iterator[Printed]:
    at = 0
    while found := _begins().search(line, at):
        start, before = found.start(), line[: found.start()]
        if before.count("`") % 2:  # `in backticks`
            end, kind = line.find("`", start), "quoted"
        elif before.endswith("next: "):
            end, kind = len(line), "next"
        elif not before.strip(" $#") and not before.strip().startswith("#"):
            end, kind = len(line), "line"
            end = line.find("  ", start) if "  " in line[start:] else end  # columns: what it does
            end = line.find(" # ", start) if " # " in line[start:end] else end
        elif before.endswith((": ", "：", "&& ")):
            end, kind = len(line), "rest"
        else:
            end, kind = found.end(), "loose"
        at = end if end > start else len(line)
        for part in line[start:at].split(" && "):
            one = _command(part.strip(), kind, where)
            if one is not None:
                yield one


def _command(text: str, kind: str, where: str) -> Printed | None:
    try:
        words = tuple(shlex.split(text))
    except ValueError:  # a quote is open: not where a command ends
        return Printed(text, tuple(text.split()), "loose", where)
    return Printed(text, words, kind, where) if words else None


def of_json(value: object, where: str = "json") -> Iterator[Printed]:
    """The commands of a document: of fields that hold nothing else, and of its sentences."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from of_json(one, f"{where}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from of_json(one, f"{where}[{number}]")
    elif isinstance(value, str):
        alone = re.search(r"\.(?:command|next|install|commands\[\d+\])$", where)
        if alone and _begins().match(value):
            yield from filter(None, [_command(value, "json", where)])
        else:
            yield from printed(value, where)


def of_page(path: Path, part: str = "") -> Iterator[Printed]:
    """What the Copy buttons of a page copy; part: only behind this text, up to the next heading.

    A command that a row's button makes has the row's key in the place of KEY: here it is the first
    row that has one.
    """
    text = path.read_text(encoding="utf-8")
    shown = text[text.index(part) :].partition("<nav")[0] if part else text
    for code in re.findall(r'<span class="command"><code>(.*?)</code>', shown, re.S):
        yield from filter(None, [_command(html.unescape(code), "copy", path.name)])
    for result in [] if part else data_of(text)["results"]:
        if result.get("look"):
            yield from filter(None, [_command(result["look"], "copy", f"{path.name}, a row")])


def data_of(page: str) -> dict:
    """What a page's script reads."""
    (packed,) = re.findall(r'<script type="[^"]+" id="data"[^>]*>([^<]*)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def of_bundle(path: Path) -> Iterator[Printed]:
    """The commands of a bundle's README, manifest and result files."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            where = f"{path.name}/{name}"
            if name.endswith((".md", ".sh")):
                yield from printed(archive.read(name).decode(), where)
            elif name == "manifest.json":
                yield from of_json(json.loads(archive.read(name)), where)


def run(text: str, folder: Path, timeout_s: float = TIMEOUT_S, **variables: str):
    """Run a command as it was printed, in the folder where it was; a CompletedProcess."""
    values = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"} | variables
    return subprocess.run(
        ["/bin/sh", "-c", text],
        cwd=folder,
        env=values,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
