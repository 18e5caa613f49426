"""The gallery's files: pairs, edits by hand, findings."""

import hashlib
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.errors import UserError

HERE = Path(__file__).resolve().parent
_ENVIRONMENT = re.compile(r"\{([A-Za-z0-9_-]+)\}")
_SOURCE = re.compile(r"\{([\w.-]+/[\w.-]+)@([0-9a-f]{40})\}")


@dataclass(frozen=True)
class Edit:
    """A change of one file's text.

    side  whose packages: torch, paddle; pair: the pair's folder
    old   every place of it becomes `new`; None: `new` is put at the end
    pair  the one pair that it is of, where a finding is about several; "": all of them
    """

    file: str
    new: str
    old: str | None = None
    side: str = "pair"
    pair: str = ""

    def apply(self, text: str) -> str:
        """The changed text; raises UserError where `old` is nowhere in it."""
        if self.old is None:
            return f"{text.rstrip()}\n\n\n{self.new.strip()}\n"
        if self.old not in text:
            first = next(line for line in [*self.old.strip().splitlines(), ""])
            raise UserError(f"{self.file}: the text to be changed is not there: {first.strip()}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class ByHand:
    """What a pair needed behind twincheck new."""

    why: str = ""
    edits: tuple[Edit, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What was written: RENAME, convert, or another edit, with its file."""
        return tuple(dict.fromkeys(_kind(edit) for edit in self.edits))


def _kind(edit: Edit) -> str:
    for name, pattern in (("RENAME", r"^RENAME\b"), ("convert", r"^def convert\b")):
        if edit.file == "case.py" and re.search(pattern, edit.new, re.MULTILINE):
            return name
    return f"edit of {edit.file}"


@dataclass(frozen=True)
class Line:
    """A pair: a line of a family's file."""

    name: str
    family: str
    words: tuple[str, ...]  # of twincheck new, with {ENVIRONMENT}s and {OWNER/NAME@COMMIT}s
    by_hand: ByHand = ByHand()
    further: bool = False  # it runs on request alone

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments that it names."""
        return tuple(dict.fromkeys(_ENVIRONMENT.findall(" ".join(self.words))))

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """The repositories that it names, each with its commit."""
        return tuple(dict.fromkeys(_SOURCE.findall(" ".join(self.words))))

    def option(self, name: str) -> str:
        """The last value of an option of its words; empty where it is not given."""
        found = [b for a, b in zip(self.words, self.words[1:], strict=False) if a == name]
        return found[-1] if found else ""

    def command(
        self, python_of: Callable[[str], str], source_of: Callable[[str, str], Path]
    ) -> list[str]:
        """Its words with the environments' Pythons and the repositories' folders."""
        words = [_SOURCE.sub(lambda m: str(source_of(m[1], m[2])), word) for word in self.words]
        return [_ENVIRONMENT.sub(lambda m: python_of(m[1]), word) for word in words]


@dataclass(frozen=True)
class Finding:
    """Why pairs are red, as it was verified by hand."""

    name: str
    pairs: tuple[str, ...]
    kind: str  # theirs, default, ours
    cause: str
    torch: str = ""  # package version: file:line
    paddle: str = ""
    program: str = ""  # the environment of NAME.py; empty: the workbench's own
    arguments: str = ""  # of twincheck new, behind the pair's own
    commit: str = ""
    test: str = ""
    mends: tuple[Edit, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it says with what change its pairs are green."""
        return bool(self.mends or self.arguments)

    def mends_of(self, pair: str) -> tuple[Edit, ...]:
        """Those of its mends that a pair gets."""
        return tuple(mend for mend in self.mends if mend.pair in ("", pair))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its mends change."""
        return tuple(dict.fromkeys(mend.file for mend in self.mends))

    @property
    def script(self) -> Path:
        """The program that shows it."""
        return HERE / "findings" / f"{self.name}.py"


def read_lines(folder: Path = HERE) -> list[Line]:
    """Every pair, in the order of the files."""
    lines = []
    for path in sorted((folder / "pairs").glob("*.txt")):
        behind: list[str] = []
        for text in path.read_text(encoding="utf-8").splitlines():
            words = shlex.split(text, comments=True)
            if words[:1] == ["*"]:
                behind = words[1:]
            elif words:
                further = words[0] == "+"
                name, *own = words[further:]
                by_hand = _by_hand(folder / "by_hand" / f"{name}.toml")
                lines.append(Line(name, path.stem, (*own, *behind), by_hand, further))
    return lines


def _by_hand(path: Path) -> ByHand:
    if not path.is_file():
        return ByHand()
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return ByHand(content["why"], _edits(content["edit"]))


def _edits(entries: Sequence[dict]) -> tuple[Edit, ...]:
    return tuple(Edit(**entry) for entry in entries)


def read_findings(folder: Path = HERE) -> list[Finding]:
    """Every finding, by name."""
    found = []
    for path in sorted((folder / "findings").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        pairs, mends = tuple(content.pop("pairs")), _edits(content.pop("mend", ()))
        found.append(Finding(path.stem, pairs, mends=mends, **content))
    return found


def sha256(*parts: object) -> str:
    """One hash of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
