"""A result that is compared: what a folder of results or a bundle says, read and not believed.

Of a folder it is result.json that counts, whose seal must hold, and the sidecars whose hashes it
names; no log is read.  A bundle is verified first, by the command that does.
"""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from twincheck.common.logs.result_folder import RESULT_FILE, LogName
from twincheck.common.logs.sidecar import Sidecar, setting_text, sidecar_path
from twincheck.common.system import extras
from twincheck.common.system import json_kinds as kinds
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import MAX_BYTES, load_json, parse_json
from twincheck.common.verdict.row import FAILING, SEVERITY, exit_code, worst
from twincheck.extras.compared import Kind
from twincheck.extras.shared.archive import Archive
from twincheck.extras.shared.sealed import load_sealed

_UNFINISHED = (".work-", ".old-")  # folders of checks that are running, or were killed
_STEP = re.compile(r"step\d_[a-z]+_?(\w*)")  # of a part of a bundle: the step's folder, and `other`
_SHOWN_OF_A_HASH = 12
# What is read of a row and of a result.json, which may say more.
_OF_A_ROW = {
    "verdict": SEVERITY.__contains__,
    "gap": kinds.number_or_null,
    "allowed": kinds.number_or_null,
    "mean_abs": kinds.number_or_null,
    "max_abs": kinds.number_or_null,
    "origin": kinds.or_null(kinds.yes_or_no),
}
_OF_A_RECORD = {
    "step": lambda value: type(value) is int and 1 <= value <= 5,
    "other": kinds.text,
    "model": kinds.text,
    "judged": lambda value: bool(value) and _names(value),
    "asked": lambda value: isinstance(value, dict),
    "files": kinds.dict_of(kinds.text),
    "allow": kinds.list_of(kinds.text),
    "guide_passed": kinds.or_null(kinds.yes_or_no),
    "rows": kinds.list_of(lambda value: isinstance(value, dict)),
}
_names = kinds.list_of(lambda value: isinstance(value, str) and re.fullmatch(r"\w+", value))
# Entries of a sidecar that say what a run was made in and of.
_OF_A_RUN = (
    *("workbench_sha256", "device", "dtype", "autocast", "preset", "seed", "mode", "modes"),
    *("cases", "probes", "no_probe", "weights", "inputs_sha256", "weights_sha256", "transplanted"),
    *("kernels", "optimizer", "steps_per_epoch", "framework_file"),
)

Name = tuple[int, str, str]  # of a step, of a further check in it, and of the model
Row = dict[str, object]  # of _OF_A_ROW


@dataclass(frozen=True)
class Found:
    """The findings of one step for one model."""

    rows: dict[str, Row]  # by key
    guide_passed: bool | None
    allow: tuple[str, ...]  # failing verdicts that its check let pass
    facts: dict[tuple[str, str], str]  # (what, side or "") -> what it was made in and of

    @property
    def verdict(self) -> str:
        """The worst row's."""
        return worst(row["verdict"] for row in self.rows.values())

    @property
    def exit_code(self) -> int:
        """0 aligned, 1 not, 2 nothing to compare."""
        return exit_code([row["verdict"] for row in self.rows.values()], self.allow)

    def fails(self, row: Row) -> bool:
        """True for a row that makes this result red."""
        return row["verdict"] in FAILING and row["verdict"] not in self.allow


def read(path: Path) -> dict[Name, Found]:
    """Return what a folder of results, a pair's folder or a bundle holds.

    Raises UserError for what is no result, was changed, or does not verify.
    """
    if not path.exists():
        raise UserError(Kind.PATH_MISSING(path=str(path)))
    named: dict[Name, tuple[str, Found]] = {}
    for place, name, found in _of_folder(path) if path.is_dir() else _of_bundle(path):
        if name in named:
            both = {"one": named[name][0], "other": place, "step": name[0], "model": name[2]}
            raise UserError(Kind.RESULT_TWICE(path=str(path), **both))
        named[name] = place, found
    return {name: found for name, (_, found) in named.items()}


def _of_folder(path: Path) -> Iterator[tuple[str, Name, Found]]:
    is_pair = (path / "case.py").is_file() and (path / "log").is_dir()
    top = path / "log" if is_pair else path
    files = [file for file in sorted(top.rglob(RESULT_FILE)) if _is_finished(file, top)]
    if not files:
        logs = any(_is_finished(file, top) for file in top.rglob("*_torch.npy"))
        missing = Kind.LOGS_UNJUDGED if logs else Kind.RESULT_MISSING
        raise UserError(missing(path=str(top), file=RESULT_FILE))
    for file in files:
        said = load_sealed(file)
        wrong = [name for name, fits in _OF_A_RECORD.items() if not fits(said.get(name))]
        if wrong:
            raise UserError(Kind.ENTRY_REFUSED(path=str(file), entry=wrong[0]))
        logs = {side: file.parent / str(LogName(said["judged"][0], side)) for side in SIDES}
        sidecars = {side: _sidecar(log, said["files"]) for side, log in logs.items()}
        name, facts = (said["step"], said["other"], said["model"]), _facts(sidecars, said["asked"])
        yield str(file.parent), name, _found(said["rows"], said, said["allow"], facts, file)


def _is_finished(file: Path, top: Path) -> bool:
    return not any(part.startswith(_UNFINISHED) for part in file.relative_to(top).parts)


def _sidecar(log: Path, hashes: Mapping[str, str]) -> Sidecar:
    """Read a log's sidecar, which must be the one that result.json tells of."""
    path = sidecar_path(log)
    with open_plain(path, links=True) as file:
        content = file.read(MAX_BYTES + 1)
    if hashlib.sha256(content).hexdigest() != hashes.get(path.name):
        raise UserError(Kind.SIDECAR_OF_ANOTHER(path=str(path), file=RESULT_FILE))
    return Sidecar.from_json(parse_json(content, path), path)


def _of_bundle(path: Path) -> Iterator[tuple[str, Name, Found]]:
    root = _verified(path)
    with Archive(path) as archive:
        manifest, own = archive.manifest()
        if own != root:
            raise UserError(Kind.BUNDLE_CHANGED(path=str(path)))
        for about in manifest["parts"]:
            folder, sidecars = about["folder"], {}
            for side in SIDES:
                name = str(sidecar_path(Path(str(LogName(about["stems"][0], side)))))
                content = parse_json(archive.read(f"{folder}/{name}"), f"{path}: {name}")
                sidecars[side] = Sidecar.from_json(content, Path(name))
            lines = archive.read(f"{folder}/rows.jsonl").splitlines()
            rows = [parse_json(line, folder) for line in lines]
            other = _STEP.fullmatch(str(about["step"]))
            name = (about["number"], other[1] if other else "", about["model"])
            facts = _facts(sidecars, about.get("asked") or {})
            yield folder, name, _found(rows, about, manifest["allow"], facts, folder)


def _verified(path: Path) -> str:
    """Return a bundle's root; raises UserError where it does not verify, as that command says."""
    verify = extras.load(extras.COMMANDS, "verify")
    errors = io.StringIO()
    with TemporaryDirectory(prefix="compared-") as folder:
        file = Path(folder) / "found.json"
        with redirect_stdout(io.StringIO()), redirect_stderr(errors):
            status = verify([str(path), "--json", str(file)])
        found = load_json(file) if file.is_file() else {}
    if status == 2:
        raise UserError(errors.getvalue().removeprefix("error: ").strip())
    if status:
        problem, command = found["problems"][0], to_type("verify", path)
        raise UserError(Kind.BUNDLE_REFUSED(path=str(path), problem=problem, command=command))
    return found["root"]


def _found(
    told: Iterable[object], about: Mapping, allow: Iterable[object], facts: dict, where: object
) -> Found:
    rows: dict[str, Row] = {}
    seen: Counter[str] = Counter()
    for record in told:
        row = {name: record.get(name) for name in _OF_A_ROW} if isinstance(record, dict) else {}
        key = record.get("key") if row else None
        if not isinstance(key, str) or not all(_OF_A_ROW[name](row[name]) for name in row):
            raise UserError(Kind.ROW_REFUSED(path=str(where), key=str(key)[:80]))
        seen[key] += 1  # several logs may have one key
        rows[f"{key} ({seen[key]})" if seen[key] > 1 else key] = row
    return Found(rows, about["guide_passed"], tuple(str(word).upper() for word in allow), facts)


def _facts(sidecars: Mapping[str, Sidecar], asked: Mapping) -> dict[tuple[str, str], str]:
    """Return (what, side) -> in words, of versions, sources, settings, inputs and weights."""
    facts: dict[tuple[str, str], object] = {}
    for side, told in sidecars.items():
        found = {told.framework or side: told.framework_version, **told.environment, **told.sources}
        found |= {name: getattr(told, name) for name in _OF_A_RUN}
        layers: dict[str, Counter[str]] = {}
        for settings in told.settings.values():
            for name, value in settings.items():
                layers.setdefault(name, Counter())[setting_text(name, value)] += 1
        for name, counts in layers.items():
            values = [f"{value} × {count}" for value, count in sorted(counts.items())]
            found[Kind.OF_LAYERS(setting=name)] = values
        facts |= {(what, side): value for what, value in found.items()}
    told = {*_OF_A_RUN, "built_in"}  # by the sides
    facts |= {(what, ""): value for what, value in asked.items() if what not in told}
    return {what: _text(value) for what, value in facts.items() if value not in (None, "", [], {})}


def _text(value: object) -> str:
    """Return a value in words; of a hash its beginning."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    text = str(value)
    return text[:_SHOWN_OF_A_HASH] if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", text) else text
