"""The results that a report for a pull request is made of: found, and trusted or refused.

A report is of one model, one state of its code and of the workbench, one set of versions and, for
the same cases, the same weights; whatever contradicts that is refused in one sentence.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from twincheck.common.logs.result_folder import BESIDE, CERTIFICATE_FILE, RESULT_FILE
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.pair.pairs import EVAL, TRAIN, load_pairs
from twincheck.common.pair.provenance import changed_sources, workbench_sha256
from twincheck.common.system.checkout import ROOT, for_logs
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SETTINGS, SIDES
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import load_json
from twincheck.common.verdict.row import FAILING
from twincheck.extras.pr_report import Kind
from twincheck.extras.pr_report.facts import facts
from twincheck.extras.shared.sealed import load_sealed

# Where twincheck certificate leaves its own, wherever the checks wrote to.
CERTIFICATES = for_logs() / "step1_forward" / "log" / "certificate"
# Other commands' results -> what each may have.
PLAIN = (*BESIDE, CERTIFICATE_FILE)
_OF_A_HOST = ("executable", "platform", *SETTINGS)


@dataclass(frozen=True)
class Run:
    """A result folder that is whole: what its check has found, and who made its logs."""

    path: Path
    said: dict  # result.json
    sides: dict[str, Sidecar]  # of the first judged logs

    @cached_property
    def facts(self) -> dict[str, object]:
        """The figures of its logs that people report."""
        return facts(self.path, self.said)

    @property
    def step(self) -> int:
        """The number of the step."""
        return self.said["step"]

    @property
    def other(self) -> str:
        """Of a further check in a step's folder; empty for the step itself."""
        return self.said["other"]

    @property
    def dtype(self) -> str:
        """The precision that was judged."""
        return self.sides["torch"].dtype or "float32"

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that it ran in; none of a step without."""
        ran = self.sides["torch"].modes.values()
        return tuple(mode for mode in (EVAL, TRAIN) if mode in ran)

    @property
    def seed(self) -> int:
        """--seed."""
        return self.sides["torch"].seed or 0

    @property
    def cases(self) -> tuple[str, ...]:
        """Prefixes of the cases' keys."""
        return tuple(self.sides["torch"].batches)

    @property
    def red(self) -> bool:
        """True for a result that is not aligned."""
        return self.said["exit_code"] != 0

    @property
    def name(self) -> str:
        """The step, its precision and what else was asked."""
        other = f" {self.other}" if self.other else ""
        asked = self.said["asked"]
        told = {n: " ".join(map(str, v)) if isinstance(v, list) else v for n, v in asked.items()}
        more = [f"{n.replace('_', '-')} {v}" for n, v in told.items() if n != "dtype"]
        return ", ".join([f"step {self.step}{other} {self.dtype}", *more])

    @property
    def failing(self) -> list[dict]:
        """The rows that do not pass, those with an error of their own first."""
        rows = [row for row in self.said["rows"] if row["verdict"] in FAILING]
        return sorted(rows, key=lambda row: row["verdict"] == "CARRIED")

    @property
    def curves(self) -> Path:
        """The picture of a training's curves, where its check drew one."""
        return self.path / "train_curves.png"

    @property
    def hashes(self) -> Iterator[tuple[str, str]]:
        """The names and SHA-256 of the judged logs and of result.json."""
        names = [f"{stem}_{side}.npy" for stem in self.said["judged"] for side in SIDES]
        yield from (
            (name, self.said["files"][name]) for name in names if name in self.said["files"]
        )
        yield RESULT_FILE, file_sha256(self.path / RESULT_FILE)


@dataclass
class Found:
    """All results of one model."""

    model: str
    pair: str  # what --model takes
    runs: list[Run] = field(default_factory=list)
    plain: dict[str, list[tuple[Path, dict]]] = field(default_factory=dict)  # name -> found
    notes: list[str] = field(default_factory=list)

    def of(self, step: int, half: bool | None = False, other: str = "") -> list[Run]:
        """The runs of a step; half: in half precision, or not, None: either."""
        return [
            run
            for run in self.runs
            if (run.step, run.other) == (step, other)
            and (half is None or (run.dtype not in ("float32", "float64")) == half)
        ]

    @property
    def red(self) -> bool:
        """True where any result is red, whether or not a table shows it."""
        plain = [said for told in self.plain.values() for _, said in told]
        return any(run.red for run in self.runs) or any(said["exit_code"] for said in plain)

    @property
    def loaders(self) -> list[str]:
        """The libraries' own loaders that the Paddle sides name."""
        return sorted({n for run in self.runs for n in run.sides["paddle"].loader.values()})


def find(folders: Sequence[Path], model: str | None) -> Found:
    """The results below these folders (the steps' own where none are given), of one model.

    model   its name, or its folder; None: there must be one alone
    """
    wanted = Path(model).name if model else None
    told = [(path, load_sealed(path)) for path in _files(folders, RESULT_FILE)]
    plain = {name: [(p, load_json(p)) for p in _files(folders, name)] for name in PLAIN}
    kept = CERTIFICATES / (wanted or (told[0][1]["model"] if told else "")) / CERTIFICATE_FILE
    if folders and not plain[CERTIFICATE_FILE] and kept.is_file():
        plain[CERTIFICATE_FILE] = [(kept, load_json(kept))]
    plain = {name: [one for one in found if "model" in one[1]] for name, found in plain.items()}
    names = [said["model"] for _, said in told]
    names += [said["model"] for found in plain.values() for _, said in found]
    known = sorted(set(names))
    where = list(map(str, folders)) or ["step*/log"]
    if not known:
        raise UserError(Kind.RESULT_MISSING(folders=where, file=RESULT_FILE))
    if wanted is None and len(known) > 1:
        raise UserError(Kind.MODELS_SEVERAL(folders=where, count=len(known), models=known))
    wanted = wanted or known[0]
    if wanted not in known:
        raise UserError(Kind.RESULT_MISSING_OF_MODEL(folders=where, model=wanted, models=known))
    runs = [_run(path, said) for path, said in told if said["model"] == wanted]
    runs.sort(key=lambda run: (run.step, run.other, run.dtype != "float32", run.dtype, run.seed))
    seen: dict[str, Run] = {}
    for run in runs:
        other = seen.setdefault(str((run.step, run.other, run.dtype, run.said["asked"])), run)
        if other is not run:
            raise UserError(Kind.RESULT_TWICE(path=str(other.path), other=str(run.path)))
    plain = {n: [(p, s) for p, s in found if s["model"] == wanted] for n, found in plain.items()}
    others = [said.get("pair") for told in plain.values() for _, said in told]
    pair = runs[0].said["pair"] if runs else next(filter(None, others), model or wanted)
    found = Found(wanted, pair, runs, plain)
    _refuse_changed(found)
    return found


def _files(folders: Sequence[Path], name: str) -> list[Path]:
    """Files of that name below the folders, each once, none of what is being written."""
    for folder in folders:
        if not folder.is_dir():
            raise UserError(Kind.FOLDER_MISSING(path=str(folder)))
    below = folders or sorted(for_logs().glob("step*/log"))
    paths = {p.resolve(): p for folder in below for p in sorted(folder.rglob(name))}
    return [p for p in paths.values() if not any(part.startswith(".work-") for part in p.parts)]


def _run(path: Path, said: dict) -> Run:
    """A result folder, read; raises UserError where its files are not those that it tells of."""
    folder = path.parent
    for name, expected in said["files"].items():
        file = folder / name
        if not file.is_file() or file_sha256(file) != expected:
            raise UserError(Kind.FILE_OF_ANOTHER(path=str(file), file=path.name))
    sides = {s: sidecar_of(folder / f"{said['judged'][0]}_{s}.npy") for s in SIDES}
    return Run(folder, said, sides)


# ---- what may not have changed between the steps -------------------------------------------------


def _refuse_changed(found: Found) -> None:
    """Raise UserError where code, versions or weights are not the same in all results."""
    plain = [one for told in found.plain.values() for one in told]
    for side in SIDES:
        told = [(run, run.sides[side]) for run in found.runs]
        for name in sorted({name for _, sidecar in told for name in sidecar.sources}):
            hashes = [(run.path, one.sources.get(name)) for run, one in told]
            others = ((path, said.get("sources", {}).get(side, {})) for path, said in plain)
            hashes += ((path, sources[name]) for path, sources in others if name in sources)
            _same(Kind.FILE_IS_ANOTHER(file=name), hashes)
        for name in sorted({name for _, sidecar in told for name in sidecar.environment}):
            if name not in _OF_A_HOST:
                versions = ((run.path, one.environment.get(name)) for run, one in told)
                _same(Kind.VERSION_IS_ANOTHER(package=name, side=side), versions)
        versions = [(run.path, one.framework_version) for run, one in told]
        versions += ((p, s["versions"][side]) for p, s in plain if side in s.get("versions", {}))
        _same(Kind.FRAMEWORK_IS_ANOTHER(side=side), versions)
        for step in {(run.step, run.other) for run, _ in told}:
            _same(
                Kind.WORKBENCH_IS_ANOTHER(),
                ((r.path, one.workbench_sha256) for r, one in told if (r.step, r.other) == step),
            )
    groups: dict[tuple, list] = {}
    for run in found.runs:
        one = run.sides["torch"]
        made = (one.preset, one.seed, one.weights, one.mode, one.dtype, run.cases)
        if run.step in (1, 3, 4) and not run.other:
            groups.setdefault(made, []).append((run.path, one.weights_sha256))
    for told in groups.values():
        _same(Kind.WEIGHTS_ARE_OTHERS(), told)
    _refuse_stale(found)


def _same(what: str, told: Iterable[tuple[Path, object]]) -> None:
    first = None
    for path, value in told:
        first = first or (path, value)
        if value != first[1]:
            paths = {"path": str(path), "other": str(first[0])}
            values = {"value": _short(value), "former": _short(first[1])}
            raise UserError(Kind.STATE_IS_ANOTHER(what=what, **paths, **values))


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text


def _refuse_stale(found: Found) -> None:
    """Raise UserError where the pair's files have changed since; note where they are not here."""
    if not found.runs:
        return
    try:
        pair = load_pairs([str(at) if (at := ROOT / found.pair).is_dir() else found.pair])[0]
    except UserError:
        found.notes.append("pair_not_here")
        return
    current = set()
    for run in found.runs:
        for side, one in run.sides.items():
            changed = changed_sources(one.sources, pair, side)
            if changed:
                command = to_type(*shlex.split(run.said["command"])[1:])
                told = {"folder": str(pair.folder), "files": changed, "command": command}
                raise UserError(Kind.RESULT_STALE(path=str(run.path), **told))
            if one.workbench_sha256 and one.command:
                script = one.command.split()[-2]  # the last word is the request
                is_current = workbench_sha256(pair, side, script) == one.workbench_sha256
                current.add((is_current, run.path))
    if len({is_current for is_current, _ in current}) == 2:
        old = sorted({str(path) for is_current, path in current if not is_current})
        raise UserError(Kind.MADE_BY_ANOTHER(paths=old))
    if current and not any(is_current for is_current, _ in current):
        found.notes.append("workbench_changed")
