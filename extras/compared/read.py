"""A result that is compared: what a folder of results or a bundle says, read and not believed.

Of a folder it is result.json that counts, whose seal must hold, and the sidecars whose hashes it
names; no log is read.  A bundle is verified first, by the command that does.
"""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import NamedTuple

from twincheck.common.logs.result_folder import RESULT_FILE, LogName
from twincheck.common.logs.sidecar import Sidecar, setting_text, sidecar_path
from twincheck.common.system import extras
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import MAX_BYTES, parse_json
from twincheck.common.system.json_kinds import number_or_null
from twincheck.common.verdict.row import exit_code, worst
from twincheck.extras.compared import Kind
from twincheck.extras.shared.archive import Archive
from twincheck.extras.shared.sealed import load_sealed

_UNFINISHED = (".work-", ".old-")  # folders of checks that are running, or were killed
_SHOWN_OF_A_HASH = 12
_OF_A_ROW = ("verdict", "gap", "allowed", "mean_abs", "max_abs", "origin")
_NOT_OURS = (LookupError, TypeError, ValueError, AttributeError)  # of what no check has written
# Entries of a sidecar that say what a run was made in and of.
_OF_A_RUN = (
    *("workbench_sha256", "device", "dtype", "autocast", "preset", "seed", "mode", "modes"),
    *("cases", "probes", "no_probe", "weights", "inputs_sha256", "weights_sha256", "transplanted"),
    *("kernels", "optimizer", "steps_per_epoch", "framework_file"),
)

Row = dict[str, object]  # of _OF_A_ROW, but for the key
# Where it lies, what result.json says of it, and how a file beside that is read.
Told = tuple[str, dict, Callable[[str], bytes]]


class Name(NamedTuple):
    """A step of a model."""

    step: int
    other: str  # of a further check in the step
    model: str

    @property
    def title(self) -> str:
        """`step 4 parallel, MODEL`."""
        other = f" {self.other}" if self.other else ""
        return Kind.STEP(step=self.step, other=other, model=self.model)


class Found(NamedTuple):
    """The findings of one step for one model."""

    rows: dict[str, Row]  # by key
    told: dict[str, object]  # in short, as --json has it
    allow: list[str]  # failing verdicts that its check let pass
    facts: dict[tuple[str, str], str] = {}  # (what, side or "") -> what it was made in and of

    def fails(self, row: Row | None) -> bool:
        """True for a row that makes this result red."""
        return row is not None and exit_code([row["verdict"]], self.allow) == 1


def read(path: Path) -> dict[Name, Found]:
    """Return what a folder of results, a pair's folder or a bundle holds.

    Raises UserError for what is no result, was changed, or does not verify.
    """
    if not path.exists():
        raise UserError(Kind.PATH_MISSING(path=str(path)))
    places: dict[Name, str] = {}
    found: dict[Name, Found] = {}
    for place, said, content_of in _of_folder(path) if path.is_dir() else _of_bundle(path):
        try:
            name = Name(range(6)[said["step"]], str(said["other"]), str(said["model"]))
            result = _found(place, said, content_of)
        except _NOT_OURS:
            raise UserError(Kind.RESULT_REFUSED(path=place)) from None
        if name in places:
            both = {"one": places[name], "other": place, "step": name.step, "model": name.model}
            raise UserError(Kind.RESULT_TWICE(path=str(path), **both))
        places[name], found[name] = place, result
    return found


def _found(place: str, said: Mapping, content_of: Callable[[str], bytes]) -> Found:
    sidecars = {}
    for side in SIDES:
        file = sidecar_path(str(LogName(said["judged"][0], side))).name
        content, where = content_of(file), f"{place}/{file}"
        if hashlib.sha256(content).hexdigest() != said["files"].get(file):
            raise UserError(Kind.SIDECAR_OF_ANOTHER(path=where, file=RESULT_FILE))
        sidecars[side] = Sidecar.from_json(parse_json(content, where), where)
    rows: dict[str, Row] = {}
    seen: Counter[str] = Counter()
    for one in said["rows"]:
        key = str(one["key"])
        seen[key] += 1  # several logs may have one key
        key = f"{key} ({seen[key]})" if seen[key] > 1 else key
        rows[key] = {entry: one.get(entry) for entry in _OF_A_ROW}
        if not all(number_or_null(rows[key][entry]) for entry in _OF_A_ROW[1:5]):
            raise ValueError(key)
    verdicts, allow = [row["verdict"] for row in rows.values()], list(map(str.upper, said["allow"]))
    told = {"verdict": worst(verdicts), "exit_code": exit_code(verdicts, allow)}
    told |= {"guide_passed": said["guide_passed"], "rows": len(rows)}
    return Found(rows, told, allow, _facts(sidecars, said["asked"]))


def _of_folder(path: Path) -> Iterator[Told]:
    is_pair = (path / "case.py").is_file() and (path / "log").is_dir()
    top = path / "log" if is_pair else path
    files = [file.relative_to(top) for file in sorted(top.rglob(RESULT_FILE))]
    files = [file for file in files if not any(p.startswith(_UNFINISHED) for p in file.parts)]
    if not files:
        raise UserError(Kind.RESULT_MISSING(path=str(top), file=RESULT_FILE))
    for file in files:
        folder = (top / file).parent
        yield str(folder), load_sealed(top / file), partial(_content, folder)


def _content(folder: Path, name: str) -> bytes:
    with open_plain(folder / name, links=True) as file:
        return file.read(MAX_BYTES + 1)


def _of_bundle(path: Path) -> Iterator[Told]:
    with Archive(path) as archive:
        manifest, root = archive.manifest()
        _verify(path, root)
        for part in manifest["parts"]:
            within = f"{part['folder']}/"
            hashes = {
                name.removeprefix(within): f["sha256"] for name, f in manifest["files"].items()
            }
            said = {"asked": {}, **part, "step": part["number"], "judged": part["stems"]}
            said |= {"other": re.sub(r"step\d_[a-z]+_?", "", part["step"]), "files": hashes}
            lines = archive.read(f"{within}rows.jsonl").splitlines()
            said |= {"allow": manifest["allow"], "rows": [parse_json(line, path) for line in lines]}
            yield part["folder"], said, lambda name, within=within: archive.read(within + name)


def _verify(path: Path, root: str) -> None:
    """Raise UserError where a bundle does not verify, with what that command says first."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = extras.load(extras.COMMANDS, "verify")([str(path), "--root", root])
    if status:
        problem = said.getvalue().splitlines()[:2][-1].strip()  # below the headline
        command = to_type("verify", path)
        raise UserError(Kind.BUNDLE_REFUSED(path=str(path), problem=problem, command=command))


def _facts(sidecars: Mapping[str, Sidecar], asked: Mapping) -> dict[tuple[str, str], str]:
    """Return (what, side) -> in words, of versions, sources, settings, inputs and weights."""
    facts: dict[tuple[str, str], object] = {}
    for side, told in sidecars.items():
        found = {told.framework or side: told.framework_version, **told.environment, **told.sources}
        found |= {name: getattr(told, name) for name in _OF_A_RUN}
        layers = [(n, setting_text(n, v)) for of in told.settings.values() for n, v in of.items()]
        for (name, value), count in sorted(Counter(layers).items()):
            found.setdefault(Kind.OF_LAYERS(setting=name), []).append(f"{value} × {count}")
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
