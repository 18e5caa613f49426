"""Verify a bundle: every file, every row whose tensors are inside, every line of every report.

`verify_bundle` unpacks an archive (extras/shared/archive.py) into a private folder, executes
nothing of it and needs neither framework.  What contradicts itself is a problem, a sentence that
names the file; what cannot be derived again is counted, with the reason.  NumPy only.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from twincheck.common.logs.guide_pair import full_stem
from twincheck.common.logs.independence import sidecar_problems
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import CHOICE, Sidecar, read_sidecar
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import parse_json
from twincheck.common.system.reasons import renamed
from twincheck.common.system.run_kind import RunKind
from twincheck.common.system.words import printable
from twincheck.common.verdict.comparisons import OWN
from twincheck.common.verdict.measures import scale_of
from twincheck.common.verdict.row import AGREEING, exit_code, worst
from twincheck.extras.bundle import Kind, plan, submission
from twincheck.extras.bundle.rows import (
    Watched,
    contradiction,
    differences,
    may_settle,
    same_made,
    same_number,
)
from twincheck.extras.shared.archive import MANIFEST, Archive, file_problems, is_safe

_WITNESS = re.compile(
    r"(?P<case>.+)/witness/(?P<kind>sgd_step|finite_difference)/(?P<side>torch|paddle)"
)
# What JSON of another shape than ours may raise somewhere in the rule.
_ODD_JSON = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
MOST_PROBLEMS = 50  # of one part: who has edited everything needs no longer list


@dataclass
class Verification:
    """The findings of verifying a bundle."""

    root: str = ""
    commit: str = ""
    changed: bool = False  # since it was written: of what it says nothing was judged
    files: int = 0
    rows: int = 0
    derived: int = 0  # rows whose verdict and numbers came out the same
    lines: int = 0  # of reprod_log's reports
    arrays: int = 0  # of the guide's pairs that are those of the logs, bit by bit
    not_derived: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    verdicts: list[dict[str, object]] = field(default_factory=list)  # of each part, from its rows

    def as_json(self) -> dict[str, object]:
        """Return what --json writes."""
        return {**vars(self), "not_derived": dict(self.not_derived)}


def verify_bundle(path: Path, root: str = "") -> Verification:
    """Verify a bundle; raises ArchiveError for a file that is none, or that is not to be unpacked.

    root   what its author says that the manifest's hash is; empty: unknown

    Of a bundle that was changed since it was written, the changed files are named and nothing else
    is judged: what the others say would follow from that.
    """
    with TemporaryDirectory(prefix="verify-") as name, Archive(path) as archive:
        folder = Path(name)
        manifest, found_root = archive.manifest()
        found = Verification(root=found_root, files=len(archive.entries))
        if archive.comment != found_root:
            found.problems.append(Kind.MANIFEST_OTHER())
        found.problems += file_problems(manifest, archive, folder)
        found.changed = bool(found.problems)
        if root and root.strip().lower() != found_root:
            other = Kind.MANIFEST_OTHER_ROOT(found=found_root, given=printable(root.strip()))
            found.problems.append(other)
        if found.changed:
            return found
        try:
            _verify_parts(manifest, folder, found)
        except plan.Odd as error:
            found.problems.append(Kind.PROBLEM_OF(of=MANIFEST, problem=str(error)))
    return found


def _verify_parts(manifest: Mapping, folder: Path, found: Verification) -> None:
    parts = plan.member(manifest, "parts", list)
    strict, allow = plan.member(manifest, "strict", bool), plan.member(manifest, "allow", list)
    found.commands = [printable(str(c)) for c in plan.member(manifest, "commands", list)]
    commit = manifest.get("commit")
    commit = commit if isinstance(commit, dict) else {}
    found.commit = printable(str(commit.get("id")))
    if commit.get("changed"):
        found.commit = Kind.COMMIT_AND_CHANGES(commit=found.commit)
    names: set[str] = set()
    for about in parts:
        plan.must(isinstance(about, dict), Kind.PART_NO_OBJECT)
        part = _Part(about, folder, strict, allow)
        plan.must(part.name not in names, Kind.PART_TWICE, part=part.name)
        names.add(part.name)
        try:
            part.verify()
        except (plan.Odd, UserError, OSError) as error:
            part.problem(renamed(str(error), f"{folder}/", ""))
        except _ODD_JSON as error:
            said = f"{type(error).__name__}: {error}"[:269]
            part.problem(Kind.NOT_OF_A_BUNDLE_WHY(error=said))
        part.report(found)
    if not found.rows:
        found.problems.append(Kind.NO_ROWS())


class _Part:
    """One step of one model: all that its files say of each other."""

    def __init__(self, about: Mapping, folder: Path, strict: bool, allow: list):
        self.about = about
        self.base = folder
        self.name: str = plan.member(about, "folder", str)
        self.submission: str = plan.member(about, "submission", str)
        safe = is_safe(self.name) and is_safe(self.submission)
        plan.must(safe, Kind.PART_FOLDER_NAME)
        self.folder = folder / self.name
        self.strict, self.allow_nan = strict, "nan" in allow
        self.allow = tuple(str(word).upper() for word in allow)
        self.stems: list[str] = plan.member(about, "stems", list)
        self.guide: str = plan.member(about, "guide", str)
        for stem in (*self.stems, self.guide):
            plan.must(isinstance(stem, str) and is_safe(stem), Kind.STEM_NAME)
        self.rows: list[dict] = []
        self.of_place: dict[plan.Place, dict] = {}
        self.sidecars: dict[str, Sidecar] = {}  # file of a log -> what its sidecar says
        self.derived: set[int] = set()  # ids of rows
        self.settled = self.lines = self.arrays = 0
        self.guide_passed: bool | None = None
        self.problems: list[str] = []

    def problem(self, sentence: str, file: str = "") -> None:
        of = f"{self.name}/{file}" if file else self.name
        self.problems.append(Kind.PROBLEM_OF(of=of, problem=sentence))

    def need(self, holds: object, kind: Kind, file: str = "", /, **fields: object) -> None:
        """Note what is wrong unless this holds."""
        if not holds:
            self.problem(kind(**fields), file)

    def report(self, found: Verification) -> None:
        """Add what was found to what was found of all."""
        found.rows += len(self.rows)
        verdict = worst([row["verdict"] for row in self.rows])
        found.verdicts.append(
            {
                "part": printable(self.name.partition("/")[2].replace("/", ", ")),
                "verdict": verdict,
                "aligned": exit_code([verdict], self.allow) == 0,
                "rows": len(self.rows),
                "derived": len(self.derived),
                "guide_passed": self.guide_passed,
            }
        )
        found.derived += len(self.derived)
        found.lines += self.lines
        found.arrays += self.arrays
        if len(self.problems) > MOST_PROBLEMS:
            more = len(self.problems) - MOST_PROBLEMS
            self.problems[MOST_PROBLEMS:] = [Kind.PROBLEMS_MORE(part=self.name, more=more)]
        found.problems += self.problems
        others = [row for row in self.rows if id(row) not in self.derived]
        no_tensors, claims = Kind.NO_TENSORS(), Kind.CLAIMS()
        found.not_derived.update(no_tensors if row["stem"] else claims for row in others)
        without = [r for r in others if r["stem"] and r["verdict"] not in AGREEING]
        if without:
            such = {"key": printable(without[0]["key"]), "verdict": without[0]["verdict"]}
            doubt = Kind.NO_TENSORS_IN_DOUBT(part=self.name, count=len(without), **such)
            found.notes.append(doubt)
        if self.settled:
            found.notes.append(Kind.SETTLED(part=self.name, count=self.settled))

    def verify(self) -> None:
        self.read_rows()
        self.read_sidecars()
        self.check_keys()
        self.check_witnesses()
        made, records = self.read_made(), self.read_inside()
        scales = parse_json(self.bytes_of(plan.SCALES), plan.SCALES)
        plan.must(plan.are_scales(scales), Kind.NOT_OF_A_BUNDLE, file=plan.SCALES)
        self.check_choice_of_rows(records)
        for stem in self.stems:
            inside = [r for r in records if r["stem"] == stem]
            self.make_again(stem, made[stem], inside, scales.get(stem, {}))
        submission.check_submission(self)

    def lines_of(self, name: str) -> Iterator[dict]:
        for number, line in enumerate(self.bytes_of(name).splitlines(), 1):
            yield parse_json(line, Kind.LINE_OF(file=name, number=number))

    def bytes_of(self, name: str) -> bytes:
        plan.must((self.folder / name).is_file(), Kind.MISSING, file=name)
        return (self.folder / name).read_bytes()

    def read_rows(self) -> None:
        """Every row, with numbers where numbers belong."""
        rows = list(self.lines_of(plan.ROWS))
        about = self.about.get("number"), self.about.get("model")
        for row in rows:
            of = {"file": plan.ROWS, "key": printable(str(row.get("key")))}
            plan.must(plan.is_row(row), Kind.ROW_NONE, **of)
            place, key = plan.place_of(row), of["key"]
            once = place not in self.of_place or not row["stem"]
            plan.must(once, Kind.ROW_TWICE, **of)
            self.of_place[place] = row
            known = row["stem"] in ("", *self.stems)
            plan.must(known, Kind.ROW_OF_AN_UNLISTED_LOG, **of)
            own = (row["step"], row["model"]) == about
            self.need(own, Kind.ROW_OF_ANOTHER, plan.ROWS, key=key)
            if sentence := contradiction(row):
                self.problem(Kind.PROBLEM_OF(of=key, problem=sentence), plan.ROWS)
        self.rows = rows

    def read_sidecars(self) -> None:
        logs: dict[Path, LogName] = {}
        told = plan.member(self.about, "logs", dict)
        for file, inside in told.items():
            name = LogName.parse(file) if is_safe(file) and "/" not in file else None
            plan.must(name is not None, Kind.LOG_NAME, file=printable(file))
            path = self.folder / file
            sidecar = read_sidecar(path)
            if sidecar is None:
                self.problem(Kind.SIDECAR_MISSING(), file)
                continue
            self.sidecars[file] = sidecar
            logs[path] = name
            there = path.is_file()
            is_it = inside != "whole" or not there or file_sha256(path) == sidecar.log_sha256
            for holds, kind in (
                (sidecar.sealed, Kind.SIDECAR_EDITED),
                ((inside == "none") != there, Kind.LOG_INSIDE_OR_NOT),
                (is_it, Kind.LOG_OTHER),
                (sidecar.model == self.about.get("model"), Kind.SIDECAR_OF_ANOTHER_MODEL),
            ):
                self.need(holds, kind, file)
        for path in sorted(self.folder.glob("*.npy")):
            self.need(path.name in told, Kind.LOG_UNTOLD, path.name)
        for name in (str(LogName(stem, side)) for stem in self.stems for side in SIDES):
            plan.must(name in told, Kind.LOG_NOT_LISTED, file=name)
        for sentence in sidecar_problems(logs, {p: self.sidecars[p.name] for p in logs}):
            self.problem(sentence)

    def check_keys(self) -> None:
        """Each key that the sidecars list has a row, and each row is of a key that they list."""
        for stem in self.stems:
            sides = [self.sidecars.get(str(LogName(stem, side)), Sidecar()) for side in SIDES]
            torch, paddle = (set(sidecar.places) for sidecar in sides)
            rows = {key for of, key in self.of_place if of == stem}
            choices = {k for s in sides for k, name in s.classes.items() if name == CHOICE}
            for odd, kind in (
                ((torch & paddle) - rows - choices, Kind.KEYS_WITHOUT_ROW),
                (rows - torch - paddle, Kind.ROWS_WITHOUT_KEY),
            ):
                if odd and torch and paddle:
                    said = kind(count=len(odd), stem=stem, key=printable(min(odd)))
                    self.problem(said, plan.ROWS)

    def check_witnesses(self) -> None:
        """Check that the sidecars say of each side's gradient by itself what its rows say."""
        for row in self.rows:
            parts = _WITNESS.fullmatch(row["key"]) if not row["stem"] else None
            if parts is None:
                continue
            key = printable(row["key"])
            file = LogName(full_stem(self.guide), parts["side"], RunKind.FLOAT64)
            seen = self.sidecars.get(str(file), Sidecar()).witness.get(parts["case"])
            if seen is None:
                self.problem(Kind.WITNESS_UNTOLD(key=key), plan.ROWS)
                continue
            off = seen["sgd_off"]
            if parts["kind"] == "finite_difference":
                rise, slope = seen.get("finite_difference"), seen["directional"]
                off = None if rise is None or slope is None else abs(rise - slope)
            same = same_number(row["gap"], off)
            self.need(same, Kind.WITNESS_OTHER, plan.ROWS, key=key, told=_shown(off))

    def read_made(self) -> dict[str, dict[str, dict]]:
        """Stem -> key -> what was made of each tensor; by itself its row, where nothing is said."""
        made: dict[str, dict[str, dict]] = {stem: {} for stem in self.stems}
        for stem, key in self.of_place:
            if stem:
                made[stem][key] = {OWN: {}}
        for record in self.lines_of(plan.MADE):
            stem, key = record.pop("stem", None), record.pop("key", None)
            fits = (stem, key) in self.of_place and isinstance(record.get(OWN), dict)
            plan.must(fits, Kind.NOT_OF_A_BUNDLE, file=plan.MADE)
            made[stem][key] = record
        for stem, keys in made.items():
            for key, of_key in keys.items():
                row = {n: v for n, v in self.of_place[stem, key].items() if n != "stem"}
                of_key[OWN] = {**row, **of_key[OWN]}
                of = {"file": plan.MADE, "key": printable(key)}
                plan.must(plan.is_made(of_key), Kind.MADE_NOT_OF_A_BUNDLE, **of)
        return made

    def read_inside(self) -> list[dict]:
        """Read the records of the rows that have their tensors inside."""
        records, seen = list(self.lines_of(plan.INSIDE)), set()
        for record in records:
            plan.must(plan.is_inside(record), Kind.NOT_OF_A_BUNDLE, file=plan.INSIDE)
            place = plan.place_of(record)
            of = {"file": plan.INSIDE, "key": printable(place[1])}
            plan.must(place not in seen and place in self.of_place, Kind.INSIDE_TWICE, **of)
            seen.add(place)
        return records

    def check_choice_of_rows(self, records: Sequence[Mapping]) -> None:
        """The rows inside must be those that the rule of choice gives, none picked by hand."""
        inside = {plan.place_of(record): record["why"] for record in records}
        told = [e for e in plan.member(self.about, "left_out", list) if isinstance(e, dict)]
        left_out = {(entry.get("stem"), entry.get("key")) for entry in told}
        first = [p for p in plan.most_used(self.rows) if p not in left_out][: plan.WORST]
        first = [*(p for p in plan.not_green(self.rows) if p not in left_out), *first]
        for _, key in [place for place in first if place not in inside][:3]:
            self.problem(Kind.INSIDE_NOT(key=printable(key)), plan.INSIDE)
        sampled = {place for place, why in inside.items() if why == plan.SAMPLE}
        drawn = plan.drawn(self.rows, self.bytes_of(plan.ROWS))
        drawn = [place for place in drawn if place not in left_out]
        ahead = next((i for i, place in enumerate(drawn) if place not in inside), len(drawn))
        self.need(sampled.issubset(drawn[:ahead]), Kind.INSIDE_OTHER_SAMPLE, plan.INSIDE)

    def make_again(
        self,
        stem: str,
        made: Mapping[str, Mapping[str, object]],
        records: Sequence[Mapping],
        scales: Mapping[str, tuple[float, str | None]],
    ) -> None:
        """Make what is inside again from its tensors, then all rows from what was made of each."""
        paths = ResultFolder(self.folder).judged_logs(stem)
        numbers = {group: float(told[0]) for group, told in scales.items()}
        shapes = {key: tuple(of_key[OWN]["shape"]) for key, of_key in made.items()}
        with ExitStack() as stack:
            how = self.strict, self.allow_nan, True
            watched = Watched(stack, paths, shapes, numbers, *how)
            self.check_scales(stem, watched, records, scales)
            settled = self.settle(stem, watched, made)
            for record in records:
                key = record["key"]
                if self.is_made_so(watched, made[key], record) and key in settled:
                    self.derived.add(id(self.of_place[stem, key]))

    def is_made_so(self, watched: Watched, made: Mapping[str, object], record: Mapping) -> bool:
        """Return whether the tensors that are inside give what was made of a key."""
        key = record["key"]
        shapes = {(name, k): tuple(shape) for name, k, shape in record.get("shapes", ())}
        for (_, k), shape in shapes.items():
            other = self.of_place.get((record["stem"], k))
            same = other is None or tuple(other["shape"]) == shape
            of = {"key": printable(key), "other": printable(k)}
            self.need(same, Kind.INSIDE_OTHER_SHAPE, plan.INSIDE, **of)
        again, reads = watched.make(key, made, shapes)
        if not reads.tensors:
            self.problem(Kind.INSIDE_NOT_IN_LOGS(key=printable(key)), plan.INSIDE)
            return False
        for name, told in made.items():
            if same_made(told, again[name]):
                continue
            if isinstance(told, dict) and isinstance(again[name], dict):
                named = "" if name == OWN else f" ({name})"
                self.tell_wrong(key, again[name], told, Kind.ROW_OTHER_BY_THE_RULE, named)
            else:
                self.problem(Kind.MADE_OTHERWISE(key=printable(key), name=name), plan.MADE)
            return False
        return True

    def settle(self, stem: str, watched: Watched, made: Mapping[str, Mapping]) -> set[str]:
        """The keys of rows that are what all rows together come to, by what was made of each."""
        try:
            again = watched.settle(made)
        except _ODD_JSON as error:
            self.problem(Kind.NOT_OF_A_BUNDLE_WHY(error=type(error).__name__), plan.MADE)
            return set()
        found = set()
        for key, settled in again.items():
            row, alone = self.of_place[stem, key], settled.as_json()
            wrong = differences(row, alone)
            if wrong and not may_settle(row, alone, wrong, watched.strict):
                self.tell_wrong(key, alone, row, Kind.ROW_OTHER_BY_ALL_ROWS)
                continue
            found.add(key)
            self.settled += bool(wrong)
        return found

    def tell_wrong(self, key: str, again: Mapping, told: Mapping, kind: Kind, of: str = "") -> None:
        """Say that a field is another one when it is made again."""
        wrong = differences(told, again)
        name = "verdict" if "verdict" in wrong else wrong[0]
        values = {"again": _shown(again[name]), "told": _shown(told.get(name))}
        self.problem(kind(key=printable(key), field=f"{name}{of}", **values), plan.ROWS)

    def check_scales(self, stem: str, watched: Watched, records: Sequence[Mapping], scales) -> None:
        """S must be that of the tensor that it is said to be of, and none inside may be larger."""
        log = watched.logs["ref64" if "ref64" in watched.logs else "ref32"]
        largest: dict[str, float] = {}  # of the tensors that are inside
        for key in (record["key"] for record in records):
            group = watched.parse(key).group
            if group:
                self.need(group in scales, Kind.SCALE_MISSING, plan.SCALES, group=printable(group))
            if group and key in log:
                largest[group] = max(largest.get(group, 0.0), scale_of(log[key]))
        most: dict[str, float] = {}  # by all rows; infinite where one says nothing
        for (of, key), row in self.of_place.items():
            if group := watched.parse(key).group if of == stem else "":
                scale = np.inf if row["scale"] is None else row["scale"]
                most[group] = max(most.get(group, 0.0), scale)
        for group, (scale, holder) in scales.items():
            if group not in largest:
                continue
            told, off = {"group": printable(group), "told": scale}, largest[group] - scale
            near = 1e-9 * max(abs(scale), largest[group])
            if off > near or holder is not None and off < -near:
                other = Kind.SCALE_OTHER(**told, found=largest[group], stem=stem)
                self.problem(other, plan.SCALES)
            if holder is None and scale > most.get(group, np.inf) * (1 + 1e-6):
                self.problem(Kind.SCALE_OF_NO_ROW(**told, most=most[group]), plan.SCALES)
            if holder is not None and holder not in log:
                self.problem(Kind.SCALE_HOLDER_NOT_INSIDE(key=printable(holder)), plan.SCALES)


def _shown(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value))[:120]
