"""Write a bundle: the submission, the report, every row, and the tensors behind those in doubt.

Here the content is chosen and put into the archive (extras/shared/archive.py); what a part of it
holds says plan.py, and verification.py verifies it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from twincheck.common.logs.guide_pair import has_pair
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import sidecar_of, sidecar_path
from twincheck.common.logs.writer import LogWriter
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.comparisons import OWN
from twincheck.common.verdict.measures import scale_of
from twincheck.extras.bundle import Kind, plan, submission
from twincheck.extras.bundle.rows import Reads, Watched, differences, made_of, same_made
from twincheck.extras.shared.archive import SCHEMA, ArchiveWriter, safe_part

MOST_BYTES = 19_000_000  # of a bundle, as far as its tensors decide
# Of one part's tensors, not packed: enough for some hundred rows of the built-in models.
PART_BYTES = 1_200_000
ROW_BYTES = 400_000  # of one row's tensors: a larger one is left out, so that others fit
SMALL_BYTES = 300_000  # of a log that is no evidence of a row, and goes in whole
_README = Path(__file__).parent / "bundle.md"


@dataclass
class Part:
    """One step of one model: the check's result, and what is said of it beside that."""

    result: object  # common/check/result.py's Result
    command: str  # what to type for the same run
    asked: dict[str, object]  # what both sides were asked for
    reports: dict[str, Path]  # name in the bundle -> HTML page

    @property
    def step(self) -> str:
        """The step's folder, such as step1_forward; of a further check in it, that too."""
        step = self.result.step
        return f"{step.name}_{step.other}" if step.other else step.name


@dataclass
class Written:
    """The facts of a written bundle."""

    path: Path
    size: int
    root: str
    files: int
    rows: int
    inside: int


def write_bundle(
    path: Path,
    parts: Sequence[Part],
    about: Mapping[str, object],
    strict: bool = False,
    allow: Sequence[str] = (),
    errors: Mapping[str, str] | None = None,
) -> Written:
    """Write a bundle of these parts; it appears whole or not at all.

    about   what the manifest says of all: the commit, the versions
    errors  what could not be compared, and why
    """
    if not parts:
        raise UserError(Kind.NO_RESULTS())
    manifest: dict[str, object] = {"schema": SCHEMA, **about}
    manifest |= {"strict": strict, "allow": list(allow), "errors": dict(errors or {})}
    told: list[dict[str, object]] = []
    inside = 0
    with ArchiveWriter(path) as archive:
        archive.add("README.md", _README.read_bytes())
        written: list[_Writing] = []
        for part in parts:
            written.append(_Writing(archive, part, [one.folder for one in written]))
            written[-1].add_files()
        for number, one in enumerate(written):
            left = (MOST_BYTES - archive.size) // (len(parts) - number)
            with ExitStack() as stack:
                evidence = _Evidence(stack, one, strict, "nan" in allow)
                evidence.choose(max(0, min(PART_BYTES, left)))
                told.append(evidence.add())
                inside += len(evidence.inside)
        manifest["parts"] = told
        manifest["commands"] = list(dict.fromkeys(part.command for part in parts))
        archive.finish(manifest)
        files = len(archive.files) + 1
    rows = sum(len(one.rows) for one in written)
    return Written(path, path.stat().st_size, archive.root, files, rows, inside)


class _Writing:
    """Writes a part into the archive: all of it but the tensors."""

    def __init__(self, archive: ArchiveWriter, part: Part, folders: Sequence[str]):
        self.archive, self.part, self.result = archive, part, part.result
        self.stems, self.guide = self.result.step.judged, self.result.step.guide_stem
        self.files = ResultFolder(self.result.folder)
        self.model = safe_part(self.result.model)
        self.folder = wanted = f"{plan.EVIDENCE}/{safe_part(part.step)}/{self.model}"
        while self.folder.lower() in map(str.lower, folders):
            self.folder = f"{wanted}_{len(folders)}"
        # Logs that are in the submission.
        pair = [str(LogName(self.guide, side)) for side in SIDES]
        self.handed_in = pair if has_pair(self.guide) else []
        self.rows = self._rows()
        self.content = _lines(self.rows)

    def _rows(self) -> list[dict[str, object]]:
        """Every row as JSON has it, with the stem of its logs; "" for what a step adds itself."""
        stems: dict[int, str] = {}
        rows = iter(self.result.rows)
        for stem in self.stems:
            for name, _ in self.result.memos[stem].made:
                if name == OWN:
                    stems[id(next(rows))] = stem
        return [{"stem": stems.get(id(row), ""), **row.as_json()} for row in self.result.rows]

    def add(self, name: str, source: Path | bytes, folder: str = "") -> None:
        """Add a file to the part's folder, or to another; one that is not there is left out."""
        if isinstance(source, bytes):
            self.archive.add(f"{folder or self.folder}/{name}", source)
        elif source.is_file():
            self.archive.add(f"{folder or self.folder}/{name}", source.read_bytes())

    def add_files(self) -> None:
        """Add the submission, the training's own logs, reports, rows and sidecars."""
        if self.handed_in:
            self._add_submission()
        logs = sorted(self.result.folder.glob("train_*.log"))
        for path in (*logs, self.files.training_curves()):
            if not path.name.endswith("_diff.log"):
                self.add(safe_part(path.name), path, f"{plan.TRAINING}/{self.model}")
        for name, page in self.part.reports.items():
            if f"{plan.REPORTS}/{name}" not in self.archive.files:
                self.add(name, page, plan.REPORTS)
        self.add(plan.ROWS, self.content)
        for path, _ in self.files.logs():
            if path.name not in self.handed_in:
                self.add(sidecar_path(path).name, sidecar_path(path))

    def _add_submission(self) -> None:
        found = {side: self.files.log(self.guide, side) for side in SIDES}
        found[submission.REPORT] = self.files.diff_log(self.guide)
        for dialect, names in submission.names(self.guide).items():
            folder = f"{plan.SUBMISSION}/{self.model}/{dialect}"
            for which, name in names.items():
                self.add(name, found[which], folder)
                if dialect == submission.NLP and which in SIDES and found[which].is_file():
                    self.add(str(sidecar_path(name)), sidecar_path(found[which]), folder)


def _lines(records: Iterable[Mapping[str, object]]) -> bytes:
    lines = (json.dumps(r, separators=(",", ":"), allow_nan=False) + "\n" for r in records)
    return "".join(lines).encode()


# ---- the tensors behind the rows that may be doubted ---------------------------------------------


class _Evidence:
    """Chooses a part's rows whose tensors go into the bundle, and writes those."""

    def __init__(self, stack: ExitStack, writing: _Writing, strict: bool, nan: bool):
        self.writing, self.stems, self.rows = writing, writing.stems, writing.rows
        self.of_place = {plan.place_of(row): row for row in self.rows if row["stem"]}
        self.logs = {s: writing.files.judged_logs(s) for s in self.stems}
        memos = {stem: writing.result.memos[stem] for stem in self.stems}
        self.scales = {stem: memo.scales or {} for stem, memo in memos.items()}
        self.made = {stem: made_of(memo) for stem, memo in memos.items()}
        self.inside: dict[plan.Place, str] = {}  # why
        self.left_out: dict[plan.Place, str] = {}  # why
        self.reads: dict[plan.Place, Reads] = {}
        self.taken: dict[str, dict[tuple[str, str], None]] = {stem: {} for stem in self.stems}
        self.whole: set[str] = set()  # stems
        self.holders: dict[tuple[str, str], str | None] = {}
        self.left = 0
        self.watched: dict[str, Watched] = {}
        for stem, logs in self.logs.items():
            shapes = {k: tuple(made[OWN]["shape"]) for k, made in self.made[stem].items()}
            self.watched[stem] = Watched(stack, logs, shapes, self.scales[stem], strict, nan)

    def choose(self, budget: int) -> None:
        self.left = budget
        for stem, logs in self.logs.items():
            size = sum(path.stat().st_size for path in logs.values())
            if size <= self.left // 2:
                self.whole.add(stem)
                self.left -= size
        for place in self.of_place:
            if place[0] in self.whole and self._is_same(place):
                self.inside[place] = plan.WHOLE
        needed = [(place, plan.NOT_GREEN) for place in plan.not_green(self.rows)]
        for place, why in (*needed, *((place, plan.GUIDE) for place in self._of_guide())):
            self._take(place, why, told=True)
        count = 0
        for place in plan.most_used(self.rows):
            count += self._take(place, plan.MOST_USED, told=True)
            if count == plan.WORST:
                break
        self._take_largest()
        for place in plan.drawn(self.rows, self.writing.content):
            if place in self.left_out or self._take(place, plan.SAMPLE):
                continue
            if place not in self.left_out:
                break  # full

    def _is_same(self, place: plan.Place) -> bool:
        """Return whether a row comes out the same by itself; if not, leave it out."""
        stem, key = place
        made = self.made[stem][key]
        again, self.reads[place] = self.watched[stem].make(key, made)
        if any(not same_made(made[name], again[name]) for name in made):
            self.left_out[place] = Kind.LEFT_OUT_OF_OTHERS()
        elif not self.reads[place].tensors:
            self.left_out[place] = Kind.LEFT_OUT_ONE_SIDED()
        return place not in self.left_out

    def _take(self, place: plan.Place, why: str, told: bool = False) -> bool:
        """Take a row; True where it is inside.

        told   say why not, where there is no room; a row that has too much by itself is always told
        """
        if place in self.inside:
            return True
        if place in self.left_out or not self._is_same(place):
            return False
        stem = place[0]
        new = [read for read in self.reads[place].tensors if read not in self.taken[stem]]
        logs = self.watched[stem].logs
        size = sum(logs[name][key].nbytes for name, key in new)
        if size > min(ROW_BYTES, self.left):
            if told or size > ROW_BYTES:
                self.left_out[place] = Kind.LEFT_OUT_TOO_LARGE(size=size)
            return False
        self.taken[stem].update(dict.fromkeys(new))
        self.left -= size
        self.inside[place] = why
        return True

    def _of_guide(self) -> list[plan.Place]:
        keys: dict[str, None] = {}
        for side in SIDES:
            sidecar = sidecar_of(self.writing.files.log(self.writing.guide, side))
            keys |= dict.fromkeys(sidecar.selected.get("keys", {}).values())
        return [(stem, key) for stem in self.logs for key in keys if (stem, key) in self.of_place]

    def _take_largest(self) -> None:
        """Of each group that has a row inside, take the tensor that its scale S is that of."""
        of_group: dict[tuple[str, str], list[str]] = {}
        for stem, key in self.of_place:
            of_group.setdefault((stem, self._group(stem, key)), []).append(key)
        groups = dict.fromkeys((stem, self._group(stem, key)) for stem, key in self.inside)
        for stem, group in groups:
            if group not in self.scales[stem]:
                continue
            scale = self.scales[stem][group]
            log = self.watched[stem].logs["ref64" if "ref64" in self.logs[stem] else "ref32"]
            likely = sorted(
                of_group[stem, group],
                key=lambda key: abs((self.of_place[stem, key]["scale"] or 0.0) - scale),
            )
            holder = next((k for k in likely[:4] if k in log and scale_of(log[k]) == scale), None)
            taken = holder is not None and self._take((stem, holder), plan.LARGEST)
            self.holders[stem, group] = holder if taken else None

    def _group(self, stem: str, key: str) -> str:
        """The group of tensors that a key shares its scale with; empty for none."""
        return self.watched[stem].parse(key).group

    def add(self) -> dict[str, object]:
        writing, result, step = self.writing, self.writing.result, self.writing.result.step
        writing.add(plan.MADE, _lines(self._made()))
        writing.add(plan.INSIDE, _lines(self._inside()))
        scales: dict[str, dict[str, object]] = {}
        for stem, key in self.inside:
            group = self._group(stem, key)
            if group in self.scales[stem]:
                told = [self.scales[stem][group], self.holders.get((stem, group))]
                scales.setdefault(stem, {})[group] = told
        content = json.dumps(scales, separators=(",", ":"), allow_nan=False)
        writing.add(plan.SCALES, content.encode())
        return {
            "step": writing.part.step,
            "number": step.number,
            "model": result.model,
            "folder": writing.folder,
            "stems": list(self.stems),
            "guide": writing.guide,
            "submission": f"{plan.SUBMISSION}/{writing.model}",
            "threshold": step.guide_threshold,
            "guide_passed": result.guide_passed,
            "command": writing.part.command,
            "asked": writing.part.asked,
            "left_out": [
                {"stem": stem, "key": key, "why": why}
                for (stem, key), why in self.left_out.items()
                if (stem, key) not in self.inside
            ],
            "logs": self._add_logs(),
            "notes": result.told,
        }

    def _made(self) -> Iterable[dict[str, object]]:
        """Give what was made of each tensor; of its own row, what the bundle has otherwise."""
        for (stem, key), row in self.of_place.items():
            made = dict(self.made[stem][key])
            changed = differences(row, made[OWN])
            made[OWN] = {name: made[OWN][name] for name in changed}
            if changed or len(made) > 1:
                yield {"stem": stem, "key": key, **made}

    def _inside(self) -> Iterable[dict[str, object]]:
        for (stem, key), why in self.inside.items():
            shapes = {} if stem in self.whole else self.reads[stem, key].shapes
            told = [[name, k, list(shape)] for (name, k), shape in shapes.items()]
            yield {"stem": stem, "key": key, "why": why, **({"shapes": told} if told else {})}

    def _add_logs(self) -> dict[str, str]:
        """Add the logs; file -> whether it is inside: whole, part or none."""
        told: dict[str, str] = {}
        judged = {path.name for logs in self.logs.values() for path in logs.values()}
        for path, name in self.writing.files.logs():
            if path.name in self.writing.handed_in:
                continue
            is_small = path.stat().st_size <= SMALL_BYTES
            whole = name.stem in self.whole if path.name in judged else is_small
            told[path.name] = "whole" if whole else "part" if path.name in judged else "none"
            if whole:
                self.writing.add(path.name, path)
        with TemporaryDirectory() as temporary:
            stems = [stem for stem in self.stems if stem not in self.whole]
            for stem, name, path in [(s, *log) for s in stems for log in self.logs[s].items()]:
                keys = {key for of, key in self.taken[stem] if of == name}
                log = self.watched[stem].logs[name]
                with LogWriter(Path(temporary) / path.name) as writer:
                    for key in (key for key in log if key in keys):
                        writer.add(key, log[key], whole=True)
                self.writing.add(path.name, writer.path)
        return told
