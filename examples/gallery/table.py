"""The gallery's files: pairs, edits by hand, findings; what is wrong in one is one sentence.

Standard library alone, but for the errors.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.errors import UserError

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
KINDS = ("theirs", "default", "ours")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
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
    """Every pair, in the order of the files; raises UserError for what no pair can be."""
    lines: dict[str, Line] = {}
    for path in sorted((folder / "pairs").glob("*.txt")):
        behind: list[str] = []
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            place = f"{path.name}:{number}"
            try:
                words = shlex.split(text, comments=True)
            except ValueError as error:
                raise UserError(f"{place}: {error}") from None
            if words[:1] == ["*"]:
                behind = words[1:]
            elif words:
                further = words[0] == "+"
                name, *own = words[further:] or [""]
                if not _NAME.fullmatch(name):
                    raise UserError(f"{place}: {name}: a name has letters, digits, '_' and '-'")
                if name in lines:
                    raise UserError(f"{place}: {name} is in {lines[name].family}.txt already")
                given = (*own, *behind)
                lines[name] = Line(name, path.stem, given, _by_hand(folder, name), further)
    _refuse_strays(folder / "by_hand", lines)
    return list(lines.values())


def _by_hand(folder: Path, name: str) -> ByHand:
    path = folder / "by_hand" / f"{name}.toml"
    if not path.is_file():
        return ByHand()
    content = _toml(path, {"why": str, "edit": list})
    return ByHand(content.get("why", ""), _edits(path, content.get("edit", []), ("pair",)))


def _refuse_strays(folder: Path, lines: Mapping[str, Line]) -> None:
    for path in sorted(folder.glob("*.toml")):
        if path.stem not in lines:
            raise UserError(f"{path}: there is no pair {path.stem}")


def read_findings(folder: Path = HERE) -> list[Finding]:
    """Every finding, by name; raises UserError for one that says too little."""
    known = {
        **{"pairs": list, "kind": str, "cause": str, "torch": str, "paddle": str, "program": str},
        **{"arguments": str, "commit": str, "test": str, "mend": list},
    }
    found = []
    for path in sorted((folder / "findings").glob("*.toml")):
        content = _toml(path, known)
        mends = _edits(path, content.pop("mend", []), ("torch", "paddle", "pair"))
        pairs = tuple(content.pop("pairs", ()))
        missing = [name for name in ("kind", "cause") if not content.get(name)]
        if not pairs or missing:
            raise UserError(f"{path}: it has no {' and no '.join(missing or ['pairs'])}")
        if content["kind"] not in KINDS:
            raise UserError(f"{path}: kind is {content['kind']}, not one of {', '.join(KINDS)}")
        found.append(Finding(path.stem, pairs, mends=mends, **content))
    return found


def _toml(path: Path, known: Mapping[str, type]) -> dict:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: {error}") from None
    for name, value in content.items():
        if name not in known or not isinstance(value, known[name]):
            raise UserError(f"{path}: {name} is not known, or is of another kind than told")
    return content


def _edits(path: Path, entries: Sequence[dict], sides: Sequence[str]) -> tuple[Edit, ...]:
    edits = []
    for entry in entries:
        try:
            edit = Edit(**entry)
        except TypeError:
            raise UserError(
                f"{path}: an edit has side, file, old, new and pair, nothing else"
            ) from None
        if edit.side not in sides:
            raise UserError(f"{path}: an edit's side is {edit.side}, not {' or '.join(sides)}")
        edits.append(edit)
    return tuple(edits)


def sha256(*parts: object) -> str:
    """One hash of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
