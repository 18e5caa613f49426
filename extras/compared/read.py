"""A result that is compared: what a folder of results or a bundle says, read and not believed.

Of a folder it is result.json that counts, whose seal must hold, and the sidecars whose hashes it
names; no log is read.  A bundle is verified first, by the command that does.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from twincheck.common.logs.result_folder import RESULT_FILE, LogName
from twincheck.common.logs.sidecar import Sidecar, sidecar_path
from twincheck.common.system import extras
from twincheck.common.system import json_kinds as kinds
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import MAX_BYTES, load_json, parse_json
from twincheck.common.verdict.row import Row, exit_code, first_bad_row, read_row, worst
from twincheck.extras.compared import Kind
from twincheck.extras.shared.archive import Archive
from twincheck.extras.shared.rows import FIELDS
from twincheck.extras.shared.sealed import load_sealed

_UNFINISHED = (".work-", ".old-")  # folders of checks that are running, or were killed
_STEP = re.compile(r"step\d_[a-z]+_?(\w*)")  # of a part of a bundle: the step's folder, and `other`
_OWN_OF_A_ROW = {name: fits for name, fits in FIELDS.items() if name not in ("key", "verdict")}
_is_row = kinds.record({name: FIELDS[name] for name in ("key", "verdict")}, _OWN_OF_A_ROW)
_TEXTS = kinds.list_of(kinds.text)
# What is read of a result.json, beside which it may say anything.
_TOLD = {
    "step": lambda value: type(value) is int and 1 <= value <= 5,
    "other": kinds.text,
    "model": kinds.text,
    "judged": lambda value: _TEXTS(value) and value and all(re.fullmatch(r"\w+", v) for v in value),
    "asked": lambda value: isinstance(value, dict),
    "files": kinds.dict_of(kinds.text),
    "allow": _TEXTS,
    "strict": kinds.yes_or_no,
    "guide_passed": kinds.or_null(kinds.yes_or_no),
    "rows": lambda value: isinstance(value, list),
    "outputs": lambda value: isinstance(value, dict),
}

Name = tuple[int, str, str]  # of a step, of a further check in it, and of the model


@dataclass
class Found:
    """What one step has found for one model, as common/report/findings.py asks for a result."""

    step: int
    other: str
    model: str
    rows: list[Row]
    sidecars: dict[str, list[Sidecar]]  # side -> those of its judged logs
    guide_passed: bool | None
    allow: tuple[str, ...]  # failing verdicts that its check let pass
    asked: dict[str, object]  # further settings, by the names of options
    training: dict[str, object] = field(default_factory=dict)  # what step 5 was set to
    cases: tuple[str, ...] = field(init=False)  # prefixes of the cases' keys
    # Of the sidecars: side -> key or layer -> what they say of it.
    places: dict[str, dict[str, str]] = field(init=False)
    settings: dict[str, dict[str, dict[str, float]]] = field(init=False)
    made: dict[str, dict[str, str]] = field(init=False)
    classes: dict[str, dict[str, str]] = field(init=False)
    handed: dict[str, dict[str, list]] = field(init=False)
    idle: dict[str, dict[str, str]] = field(init=False)
    starts: tuple = ()  # what differs in initial values is not kept, but for its rows

    @property
    def verdict(self) -> str:
        """The worst row's."""
        return worst(row.verdict for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 aligned, 1 not, 2 nothing to compare."""
        return exit_code([row.verdict for row in self.rows], self.allow)

    @property
    def first_diverged(self) -> Row | None:
        """The first row that is not aligned."""
        return first_bad_row(self.rows, self.allow)

    def __post_init__(self):
        self.cases = tuple(dict.fromkeys(p for one in self.sidecars["torch"] for p in one.batches))
        for name in ("places", "settings", "made", "classes", "handed", "idle"):
            found = {
                side: {k: value for one in told for k, value in getattr(one, name).items()}
                for side, told in self.sidecars.items()
            }
            setattr(self, name, found)


@dataclass
class Told:
    """One of two results: all that is in it, by name."""

    path: Path
    found: dict[Name, Found]
    root: str = ""  # of a bundle
    commit: str = ""  # of the workbench, as a bundle says it

    @property
    def models(self) -> list[str]:
        """The names of its models."""
        return list(dict.fromkeys(model for _, _, model in self.found))


def read(path: Path) -> Told:
    """What a folder of results, a pair's folder or a bundle holds.

    Raises UserError for what is no result, was changed, or does not verify.
    """
    if path.is_dir():
        return Told(path, _named(_of_folder(path), path))
    if not path.exists():
        raise UserError(Kind.PATH_MISSING(path=str(path)))
    return _of_bundle(path)


def _named(found: Iterable[tuple[str, Found]], path: Path) -> dict[Name, Found]:
    """By name; raises UserError where two have one."""
    places: dict[Name, str] = {}
    named: dict[Name, Found] = {}
    for place, one in found:
        name = one.step, one.other, one.model
        if name in named:
            both = {"one": places[name], "other": place, "step": one.step, "model": one.model}
            raise UserError(Kind.RESULT_TWICE(path=str(path), **both))
        places[name], named[name] = place, one
    return dict(sorted(named.items(), key=lambda entry: (entry[0][2], entry[0][:2])))


# ---- a folder -----------------------------------------------------------------------------------


def _of_folder(path: Path) -> Iterator[tuple[str, Found]]:
    top = path
    if (path / "case.py").is_file() and (path / "log").is_dir():
        top = path / "log"  # a pair's own
    files = [file for file in sorted(top.rglob(RESULT_FILE)) if _is_finished(file, top)]
    if not files:
        if any(_is_finished(file, top) for file in top.rglob("*_torch.npy")):
            raise UserError(Kind.LOGS_UNJUDGED(path=str(top), file=RESULT_FILE))
        raise UserError(Kind.RESULT_MISSING(path=str(top)))
    for file in files:
        yield str(file.parent), _of_record(file)


def _is_finished(file: Path, top: Path) -> bool:
    return not any(part.startswith(_UNFINISHED) for part in file.relative_to(top).parts)


def _of_record(file: Path) -> Found:
    """What a result.json and the sidecars beside it say."""
    said = load_sealed(file)
    for name, fits in _TOLD.items():
        if not fits(said.get(name)):
            raise UserError(Kind.ENTRY_REFUSED(path=str(file), entry=name))
    sidecars = {
        side: [_sidecar(file.parent / str(LogName(stem, side)), said) for stem in said["judged"]]
        for side in SIDES
    }
    training = said.get("settings", {})
    return Found(
        said["step"],
        said["other"],
        said["model"],
        [_row(_whole(record, said["outputs"]), file) for record in said["rows"]],
        sidecars,
        said["guide_passed"],
        tuple(word.upper() for word in said["allow"]),
        {**said["asked"], "strict": said["strict"], "allow": said["allow"]},
        training if isinstance(training, dict) else {},
    )


def _sidecar(log: Path, said: Mapping) -> Sidecar:
    """A log's sidecar, which must be the one that result.json tells of."""
    path = sidecar_path(log)
    if path.name not in said["files"] and not path.exists():
        return Sidecar()
    with open_plain(path, links=True) as file:
        content = file.read(MAX_BYTES + 1)
    if hashlib.sha256(content).hexdigest() != said["files"].get(path.name):
        raise UserError(Kind.SIDECAR_OF_ANOTHER(path=str(path), file=RESULT_FILE))
    return Sidecar.from_json(parse_json(content, path), path)


def _whole(record: object, outputs: Mapping) -> object:
    """A row as it is kept whole, which those of outputs are; of others in short."""
    return outputs.get(str(record.get("key")), record) if isinstance(record, dict) else record


def _row(record: object, where: object) -> Row:
    if not isinstance(record, dict):
        raise UserError(Kind.ROW_REFUSED_NO_DICT(path=str(where)))
    known = {name: record[name] for name in FIELDS if name in record}
    refused = UserError(Kind.ROW_REFUSED(path=str(where), key=str(record.get("key"))[:80]))
    if not _is_row(known):
        raise refused
    try:
        return read_row(known)
    except (ValueError, TypeError, KeyError):  # such as a reason with fields that its kind has not
        raise refused from None


# ---- a bundle -----------------------------------------------------------------------------------


def _of_bundle(path: Path) -> Told:
    root = _verified(path)
    with Archive(path) as archive:
        manifest, own = archive.manifest()
        if own != root:
            raise UserError(Kind.BUNDLE_CHANGED(path=str(path)))
        found = _named((_of_part(archive, manifest, about) for about in manifest["parts"]), path)
    return Told(path, found, root, str(manifest.get("commit", {}).get("id", "")))


def _verified(path: Path) -> str:
    """A bundle's root; raises UserError where it does not verify, in the words of that command."""
    verify = extras.load(extras.COMMANDS, "verify")
    words, errors = io.StringIO(), io.StringIO()
    with TemporaryDirectory(prefix="compared-") as folder:
        file = Path(folder) / "found.json"
        with redirect_stdout(words), redirect_stderr(errors):
            status = verify([str(path), "--json", str(file)])
        found = load_json(file) if file.is_file() else {}
    if status == 2:
        raise UserError(errors.getvalue().removeprefix("error: ").strip())
    if status:
        first, *more = found["problems"]
        told = Kind.PROBLEM_AND_MORE(problem=first, count=len(more)) if more else first
        command = to_type("verify", path)
        raise UserError(Kind.BUNDLE_REFUSED(path=str(path), problem=told, command=command))
    return found["root"]


def _of_part(archive: Archive, manifest: Mapping, about: Mapping) -> tuple[str, Found]:
    """A part of a bundle that was verified."""
    folder = about["folder"]

    def parsed(name: str) -> dict:
        return parse_json(archive.read(f"{folder}/{name}"), f"{archive.path}: {name}")

    rows = archive.read(f"{folder}/rows.jsonl").splitlines()
    names = {side: [str(LogName(stem, side)) for stem in about["stems"]] for side in SIDES}
    sidecars = {
        side: [Sidecar.from_json(parsed(str(sidecar_path(log))), log) for log in logs]
        for side, logs in names.items()
    }
    asked = about.get("asked")
    asked = {**asked} if isinstance(asked, dict) else {}
    asked.pop("built_in", None)
    allow = [str(word) for word in manifest["allow"]]
    other = _STEP.fullmatch(str(about["step"]))
    return folder, Found(
        about["number"],
        other[1] if other else "",
        about["model"],
        [_row(parse_json(line, folder), folder) for line in rows],
        sidecars,
        about["guide_passed"],
        tuple(word.upper() for word in allow),
        {**asked, "strict": manifest["strict"], "allow": allow},
    )
