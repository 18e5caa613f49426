"""Write a bundle: the hand-in, the report, every row, and the tensors behind those in doubt.

Here the content is chosen and put into the archive (common/system/archive.py); what a part of it
holds says part.py, and check.py verifies it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from common.bundles import hand_in
from common.bundles.part import (
    EVIDENCE,
    GUIDE,
    HAND_IN,
    INSIDE,
    LARGEST,
    MADE,
    MOST_TRIED,
    MOST_USED,
    NOT_GREEN,
    REPORTS,
    ROWS,
    SAMPLE,
    SCALES,
    TRAINING,
    WHOLE,
    WORST,
    Place,
    drawn,
    environment_of,
    most_used,
    not_green,
    place_of,
    rows_hash,
)
from common.bundles.rows import Reads, Watched, differences, made_of, same_made
from common.logs.guide_pair import has_pair
from common.logs.reader import Log
from common.logs.result_folder import LogName, ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar, sidecar_path
from common.logs.writer import LogWriter
from common.system.archive import SCHEMA, ArchiveWriter, safe_part
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.verdict.comparisons import OWN, Memo
from common.verdict.measures import largest_scale
from common.verdict.row import Row, count_verdicts, exit_code, worst

MOST_BYTES = 19_000_000  # of a bundle, as far as its tensors decide
# Of one part's tensors, not packed: enough for some hundred rows of the built-in models.
PART_BYTES = 1_200_000
ROW_BYTES = 400_000  # of one row's tensors: a larger one is left out, so that others fit
SMALL_BYTES = 300_000  # of a log that is no evidence of a row, and goes in whole


@dataclass
class Judged:
    """What one step left of one model, judged as the check judges it."""

    number: int
    step: str  # the step's folder, such as step1_forward
    model: str
    folder: Path
    stems: tuple[str, ...]  # of the logs that have a verdict
    guide_stem: str  # of the guide's pair
    threshold: float
    rows: list[Row]
    notes: list[str]
    command: str  # what to type for the same run
    guide_passed: bool | None  # the guide's rule on its own keys
    guide_all_passed: bool | None  # on every tensor
    memos: dict[str, Memo] = field(default_factory=dict)  # stem -> what was made of its logs
    asked: dict[str, object] = field(default_factory=dict)  # what --rerun asks for
    reports: dict[str, Path] = field(default_factory=dict)  # name in the bundle -> HTML page


@dataclass
class Written:
    """What a written bundle is."""

    path: Path
    size: int
    root: str
    files: int
    rows: int
    inside: int
    left_out: int


def write_bundle(
    path: Path,
    parts: Sequence[Judged],
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
        raise UserError("there are no results to put into a bundle: run a check first")
    folders = _folders(parts)
    manifest: dict[str, object] = {"schema": SCHEMA, **about}
    manifest |= {"strict": strict, "allow": list(allow), "errors": dict(errors or {})}
    told: list[dict[str, object]] = []
    with ArchiveWriter(path) as archive:
        archive.add("README.md", README.encode())
        rows = {folders[id(p)]: _rows(p) for p in parts}
        for part in parts:
            folder = folders[id(part)]
            _add_hand_in(archive, part, f"{HAND_IN}/{safe_part(part.model)}")
            _add_training(archive, part, f"{TRAINING}/{safe_part(part.model)}")
            for name, page in part.reports.items():
                if f"{REPORTS}/{name}" not in archive.files and page.is_file():
                    archive.add(f"{REPORTS}/{name}", page.read_bytes())
            archive.add(f"{folder}/{ROWS}", _lines(rows[folder]))
            _add_sidecars(archive, part, folder)
        for number, part in enumerate(parts):
            folder = folders[id(part)]
            left = (MOST_BYTES - archive.size) // (len(parts) - number)
            evidence = _Evidence(part, rows[folder], strict, "nan" in allow)
            evidence.choose(max(0, min(PART_BYTES, left)))
            try:
                told.append(evidence.add(archive, folder))
            finally:
                evidence.close()
        manifest["parts"] = told
        manifest["rows"] = sum(part["rows"]["count"] for part in told)
        manifest |= _of_sidecars(parts)
        archive.finish(manifest)
        files = len(archive.files) + 1
    left_out = sum(len(part["left_out"]) for part in told)
    inside = sum(part["inside"] for part in told)
    size = path.stat().st_size
    return Written(path, size, archive.root, files, manifest["rows"], inside, left_out)


def _folders(parts: Sequence[Judged]) -> dict[int, str]:
    """Part -> its folder in the bundle."""
    folders: dict[int, str] = {}
    for part in parts:
        name = wanted = f"{EVIDENCE}/{safe_part(part.step)}/{safe_part(part.model)}"
        while name.lower() in (known.lower() for known in folders.values()):
            name = f"{wanted}_{len(folders)}"
        folders[id(part)] = name
    return folders


def _rows(part: Judged) -> list[dict[str, object]]:
    """Every row as JSON has it, with the stem of its logs; "" for what a step adds itself."""
    stems: dict[int, str] = {}
    rows = iter(part.rows)
    for stem in part.stems:
        for name, _ in part.memos[stem].made:
            if name == OWN:
                stems[id(next(rows))] = stem
    return [{"stem": stems.get(id(row), ""), **row.as_json()} for row in part.rows]


def _lines(records: Iterable[Mapping[str, object]]) -> bytes:
    """JSON, a line each."""
    lines = (json.dumps(r, separators=(",", ":"), allow_nan=False) + "\n" for r in records)
    return "".join(lines).encode()


def _add_hand_in(archive: ArchiveWriter, part: Judged, folder: str) -> None:
    """The guide's pair and reprod_log's report, under the names of each dialect."""
    if not has_pair(part.guide_stem):
        return
    files = ResultFolder(part.folder)
    found = {side: files.log(part.guide_stem, side) for side in SIDES}
    found[hand_in.REPORT] = files.diff_log(part.guide_stem)
    for dialect, names in hand_in.names(part.guide_stem).items():
        for which, name in names.items():
            if not found[which].is_file():
                continue
            archive.add(f"{folder}/{dialect}/{name}", found[which].read_bytes())
            sidecar = sidecar_path(found[which])
            if dialect == hand_in.NLP and which in SIDES and sidecar.is_file():
                name = f"{folder}/{dialect}/{sidecar_path(name)}"
                archive.add(name, sidecar.read_bytes())


def _add_training(archive: ArchiveWriter, part: Judged, folder: str) -> None:
    """Trainings' own logs, in the guide's standard form, and the picture of their curves."""
    paths = [*sorted(part.folder.glob("train_*.log")), ResultFolder(part.folder).training_curves()]
    for path in paths:
        if path.is_file() and not path.name.endswith("_diff.log"):
            archive.add(f"{folder}/{safe_part(path.name)}", path.read_bytes())


def _add_sidecars(archive: ArchiveWriter, part: Judged, folder: str) -> None:
    """What each log's sidecar says, and what the twins were asked for."""
    pair = {f"{part.guide_stem}_{side}.npy" for side in SIDES}
    for path, _ in ResultFolder(part.folder).logs():
        sidecar = sidecar_path(path)
        if sidecar.is_file() and not (path.name in pair and has_pair(part.guide_stem)):
            archive.add(f"{folder}/{sidecar.name}", sidecar.read_bytes())
    others = sorted(part.folder.glob("request_*.json"))
    others += [ResultFolder(part.folder).suited(), ResultFolder(part.folder).reference_key()]
    for path in others:
        if path.is_file():
            archive.add(f"{folder}/asked/{safe_part(path.name)}", path.read_bytes())


def _of_sidecars(parts: Sequence[Judged]) -> dict[str, object]:
    """What all sidecars together say: environments, seeds and commands."""
    environments, seeds, commands = [], set(), []
    for part in parts:
        for path, name in ResultFolder(part.folder).logs():
            sidecar = read_sidecar(path) or Sidecar()
            environment = environment_of(name.side, sidecar)
            if environment not in environments:
                environments.append(environment)
            if sidecar.seed is not None:
                seeds.add(sidecar.seed)
        if part.command not in commands:
            commands.append(part.command)
    return {"environments": environments, "seeds": sorted(seeds), "commands": commands}


# ---- the tensors behind the rows that may be doubted ---------------------------------------------


class _Evidence:
    """Chooses a part's rows whose tensors go into the bundle, and writes those."""

    def __init__(self, part: Judged, rows: list[dict[str, object]], strict: bool, nan: bool):
        self.part = part
        self.rows = rows
        self.of_place = {place_of(row): row for row in rows if row["stem"]}
        self.strict, self.nan = strict, nan
        self.logs = {s: ResultFolder(part.folder).judged_logs(s) for s in part.stems}
        self.scales = {stem: memo.scales or {} for stem, memo in part.memos.items()}
        self.made = {stem: made_of(memo) for stem, memo in part.memos.items()}
        self.inside: dict[Place, str] = {}  # why
        self.left_out: dict[Place, str] = {}  # why
        self.reads: dict[Place, Reads] = {}
        self.taken: dict[str, dict[tuple[str, str], None]] = {stem: {} for stem in part.stems}
        self.whole: set[str] = set()
        self.holders: dict[tuple[str, str], str | None] = {}
        self.left = 0
        self.watched: dict[str, Watched] = {}

    def choose(self, budget: int) -> None:
        """Choose rows until the budget, in bytes, is used up."""
        self.left = budget
        for stem, logs in self.logs.items():
            size = sum(path.stat().st_size for path in logs.values())
            if size <= self.left // 2:
                self.whole.add(stem)
                self.left -= size
                for row in self.rows:
                    if row["stem"] == stem:
                        self.inside[place_of(row)] = WHOLE
        for stem, logs in self.logs.items():
            shapes = {k: tuple(made[OWN]["shape"]) for k, made in self.made[stem].items()}
            self.watched[stem] = Watched(logs, shapes, self.scales[stem], self.strict, self.nan)
        try:
            self._watch_whole()
            seed = rows_hash(_lines(self.rows))
            for place in not_green(self.rows):
                self._take(place, NOT_GREEN, told=True)
            for place in self._of_guide():
                self._take(place, GUIDE, told=True)
            count = 0
            for place in most_used(self.rows)[: MOST_TRIED * WORST]:
                count += self._take(place, MOST_USED, told=True)
                if count == WORST:
                    break
            self._take_largest()
            for place in drawn(self.rows, seed):
                if place not in self.left_out and not self._take(place, SAMPLE):
                    if place not in self.left_out:
                        break  # full
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the logs."""
        for watched in self.watched.values():
            watched.__exit__()

    def _watch_whole(self) -> None:
        """Find what the rows of whole logs are made of, and which of them cannot be made again."""
        for place in list(self.inside):
            if not self._is_same(place):
                del self.inside[place]

    def _is_same(self, place: Place) -> bool:
        """Whether a row comes out the same by itself; if not, it is left out."""
        stem, key = place
        made = self.made[stem][key]
        again, self.reads[place] = self.watched[stem].make(key, made)
        if any(not same_made(made[name], again[name]) for name in made):
            self.left_out[place] = "its verdict depends on more than its tensors"
        elif not self.reads[place].tensors:
            self.left_out[place] = "a side has no such tensor"
        return place not in self.left_out

    def _take(self, place: Place, why: str, told: bool = False) -> bool:
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
                self.left_out[place] = f"its tensors have {size:,} bytes: there is no room"
            return False
        self.taken[stem].update(dict.fromkeys(new))
        self.left -= size
        self.inside[place] = why
        return True

    def _of_guide(self) -> list[Place]:
        """The rows that the guide's pair was selected from."""
        keys: dict[str, None] = {}
        for side in SIDES:
            path = ResultFolder(self.part.folder).log(self.part.guide_stem, side)
            sidecar = read_sidecar(path) if path.is_file() else None
            if sidecar is not None and sidecar.selected:
                keys.update(dict.fromkeys(sidecar.selected["keys"].values()))
        return [(stem, key) for stem in self.logs for key in keys if (stem, key) in self.of_place]

    def _take_largest(self) -> None:
        """Of each group that has a row inside, take the tensor that its scale S is that of."""
        groups: dict[tuple[str, str], None] = {}
        for stem, key in self.inside:
            group = self._group(stem, key)
            if group in self.scales[stem]:
                groups[stem, group] = None
        of_group: dict[tuple[str, str], list[str]] = {}
        for stem, key in self.of_place:
            of_group.setdefault((stem, self._group(stem, key)), []).append(key)
        for stem, group in groups:
            scale = self.scales[stem][group]
            log = self.watched[stem].logs["ref64" if "ref64" in self.logs[stem] else "ref32"]
            likely = sorted(
                of_group.get((stem, group), ()),
                key=lambda key: abs((self.of_place[stem, key]["scale"] or 0.0) - scale),
            )
            holder = next(
                (k for k in likely[:4] if k in log and largest_scale([log[k]]) == scale), None
            )
            taken = holder is not None and self._take((stem, holder), LARGEST)
            self.holders[stem, group] = holder if taken else None

    def _group(self, stem: str, key: str) -> str:
        """The group of tensors that a key shares its scale with; empty for none."""
        return self.watched[stem].parse(key).group

    # ---- writing --------------------------------------------------------------------------------

    def add(self, archive: ArchiveWriter, folder: str) -> dict[str, object]:
        """Put it all into the archive; returns what the manifest says of this part."""
        part = self.part
        archive.add(f"{folder}/{MADE}", _lines(self._made()))
        archive.add(f"{folder}/{INSIDE}", _lines(self._inside()))
        scales: dict[str, dict[str, object]] = {}
        for stem, key in self.inside:
            group = self._group(stem, key)
            if group in self.scales[stem]:
                told = [self.scales[stem][group], self.holders.get((stem, group))]
                scales.setdefault(stem, {})[group] = told
        content = json.dumps(scales, separators=(",", ":"), allow_nan=False)
        archive.add(f"{folder}/{SCALES}", content.encode())
        verdicts = [row["verdict"] for row in self.rows]
        return {
            "step": part.step,
            "number": part.number,
            "model": part.model,
            "folder": folder,
            "stems": list(part.stems),
            "guide": part.guide_stem,
            "hand_in": f"{HAND_IN}/{safe_part(part.model)}",
            "threshold": part.threshold,
            "guide_passed": part.guide_passed,
            "guide_all_passed": part.guide_all_passed,
            "command": part.command,
            "asked": part.asked,
            "verdict": worst(verdicts),
            "exit_code": exit_code(verdicts),
            "counts": dict(count_verdicts(part.rows)),
            "rows": {"count": len(self.rows), "sha256": rows_hash(_lines(self.rows))},
            "inside": len(self.inside),
            "left_out": [
                {"stem": stem, "key": key, "why": why}
                for (stem, key), why in self.left_out.items()
                if (stem, key) not in self.inside
            ],
            "logs": self._add_logs(archive, folder),
            "notes": part.notes,
        }

    def _made(self) -> Iterable[dict[str, object]]:
        """What was made of each tensor; of its own row what its row in the bundle has otherwise."""
        for (stem, key), row in self.of_place.items():
            made = dict(self.made[stem][key])
            changed = differences(row, made[OWN])
            made[OWN] = {name: made[OWN][name] for name in changed}
            if changed or len(made) > 1:
                yield {"stem": stem, "key": key, **made}

    def _inside(self) -> Iterable[dict[str, object]]:
        for (stem, key), why in self.inside.items():
            record: dict[str, object] = {"stem": stem, "key": key, "why": why}
            shapes = self.reads[stem, key].shapes
            if shapes and stem not in self.whole:
                record["shapes"] = [[name, k, list(s)] for (name, k), s in shapes.items()]
            yield record

    def _add_logs(self, archive: ArchiveWriter, folder: str) -> dict[str, dict[str, object]]:
        """Add the logs, whole or in part; file -> what the manifest says of each."""
        told: dict[str, dict[str, object]] = {}
        judged = {path.name for logs in self.logs.values() for path in logs.values()}
        pair = {str(LogName(self.part.guide_stem, side)) for side in SIDES}
        for path, name in ResultFolder(self.part.folder).logs():
            if path.name in pair and has_pair(self.part.guide_stem):
                continue  # it is in the hand-in
            size = path.stat().st_size
            about = {"bytes": size, "sha256": (read_sidecar(path) or Sidecar()).log_sha256}
            whole = name.stem in self.whole if path.name in judged else size <= SMALL_BYTES
            about["inside"] = "whole" if whole else "part" if path.name in judged else "none"
            if whole:
                archive.add(f"{folder}/{path.name}", path.read_bytes())
            told[path.name] = about
        with TemporaryDirectory() as temporary:
            for stem, logs in self.logs.items():
                for name, path in logs.items():
                    if stem not in self.whole:
                        keys = {key for log, key in self.taken[stem] if log == name}
                        log = self.watched[stem].logs[name]
                        content = _part_of(log, keys, Path(temporary) / path.name)
                        archive.add(f"{folder}/{path.name}", content)
        return told


def _part_of(log: Log, keys: set[str], target: Path) -> bytes:
    """A log that holds some of another's tensors, in its order."""
    with LogWriter(target) as writer:
        for key in log:
            if key in keys:
                writer.add(key, log[key], whole=True)
    return target.read_bytes()


README = """\
# A bundle of an alignment workbench

What one run of its five steps left, for somebody who was not there.

- `hand_in/MODEL/`: the pairs of logs and reprod_log's reports that the reproduction guide asks for,
  under the names of the guide for language (`nlp/log_reprod/`), of the guide for vision
  (`cv/result/`, `cv/result/log/`) and of the sample repositories (`samples/StepN/`).
- `reports/`: the report as a page, where one was made.
- `training/MODEL/`: each side's training log in the guide's standard form (loss, batch_cost,
  reader_cost, ips) and the curves as a picture.
- `evidence/STEP/MODEL/`: every row with its verdict (`rows.jsonl`), the sidecars of all logs (who
  made them, in what environment, from which sources, inputs and weights), and the tensors behind
  the rows that may be doubted: all that are not plain agreement, those that the guide asks for, the
  ten that used most of what they were allowed, and a sample drawn by the hash of all rows. Small
  logs are whole. No tensor is cut: `manifest.json` lists the rows whose tensors were too large.
- `manifest.json`: the SHA-256 of every file, the commit, environments, seeds and commands.

## Verify it

    python -m common.verify BUNDLE

in a checkout of the workbench. It needs Python and NumPy, no framework; it executes nothing of the
bundle. It compares each file with the manifest, applies the rule anew to every row whose tensors
are here, computes each line of each `*_diff.log` anew, and compares what the files say of each
other.
The root is the SHA-256 of `manifest.json`; through it, that of every byte here. Ask the author for
the root that the check printed, and compare: another root is another bundle.

    python -m common.verify BUNDLE --root ROOT
    python -m common.verify BUNDLE --rerun

The second runs the recorded checks again in this checkout, with both frameworks, and compares.

## What it proves, and what not

- Of a row whose tensors are here: these tensors have this verdict by the rule. What it is told
  beside them is how large the largest of its kind is, in `scales.json`: that is itself here where
  it could be. What all rows make of each other (where something starts, what was only passed on)
  is made anew of all rows, as `rows.jsonl` and `made.jsonl` have them.
- Of the other rows: that none was left out or added without its sidecars saying otherwise, and that
  their numbers do not contradict each other. Their tensors are not here.
- Not who made the logs. There is no signature: whoever writes all files by hand, or runs PyTorch
  twice and labels one log as Paddle's in every place, can make a bundle in which all agrees. So can
  who changes the commit, the seed or the times everywhere. `--rerun` is the proof against that:
  it makes the logs again. The root shows only that two people talk of the same bundle.
- That the guide's threshold passes is what reprod_log says; that two frameworks compute the same
  function is what the rows say. Neither says that the model is a good one.
"""
