"""Verify a bundle: every file, every row whose tensors are inside, every line of every report.

`verify_bundle` unpacks an archive (common/bundles/archive.py) into a private folder, executes
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

from common.bundles import plan, submission
from common.bundles.archive import MANIFEST, Archive, file_problems, is_safe
from common.bundles.rows import Watched, differences, same_made, same_number
from common.logs import entry_kinds as kinds
from common.logs.guide_pair import full_stem, guide_value, has_pair, is_over_torch
from common.logs.independence import sidecar_problems
from common.logs.pickle_machine import printable
from common.logs.reader import Log, read_log
from common.logs.result_folder import FLOAT64, LogName, ResultFolder
from common.logs.sidecar import CHOICE, Sidecar, read_sidecar, sidecar_path
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.system.hashes import file_sha256, same_bits
from common.system.json_file import parse_json
from common.verdict.comparisons import LOGITS, OWN, RUNS, SKETCH
from common.verdict.half import BY_ITSELF
from common.verdict.measures import largest_scale
from common.verdict.row import AGREEING, SEVERITY, claim, worst
from common.verdict.tolerances import tolerance

_WITNESS = re.compile(
    r"(?P<case>.+)/witness/(?P<kind>sgd_step|finite_difference)/(?P<side>torch|paddle)"
)
# What JSON of another shape than ours may raise somewhere in the rule.
_ODD_JSON = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
NO_TENSORS = "their tensors are not inside"
BY_STEP = "claims of a step's own; they do not contradict their numbers"
SETTLED = "derived up to what all rows together decide"
MOST_PROBLEMS = 50  # of one part: who has edited everything needs no longer list


def _is_shape(value: object) -> bool:
    fits = isinstance(value, list) and list(map(type, value)) == [str, str, list]
    return fits and all(map(kinds.length, value[2]))


def _is_scale(value: object) -> bool:
    fits = isinstance(value, list) and len(value) == 2 and value[0] is not None
    return fits and kinds.number_or_null(value[0]) and kinds.or_null(kinds.text)(value[1])


_NUMBERS = (
    *("mean_abs", "max_abs", "gap", "noise_ref", "noise_cand", "scale", "allowed"),
    *("difference", "noise", "worst_ref", "worst_cand"),
)
_FIELDS = (
    dict.fromkeys(("key", "measure", "excuse", "note", "model"), kinds.text)
    | dict.fromkeys(_NUMBERS, kinds.number_or_null)
    | dict.fromkeys(("of_sums", "size", "nans"), kinds.whole)
    | dict.fromkeys(("beyond", "sample"), kinds.or_null(kinds.whole))
    | dict.fromkeys(("capped", "measured", "origin", "noise_only", "inside"), kinds.yes_or_no)
    | {"verdict": SEVERITY.__contains__, "guide_passed": kinds.or_null(kinds.yes_or_no)}
    | {"shape": kinds.list_of(kinds.whole), "step": lambda step: True}
    | {"worst_index": kinds.or_null(kinds.list_of(kinds.whole))}
)
# What stands in a line of each file, or in all of it.
_ROW = kinds.record(_FIELDS | {"stem": kinds.text})
_MADE_ROW = kinds.record(_FIELDS)
_MADE = kinds.record(
    {OWN: _MADE_ROW},
    dict.fromkeys(RUNS, _MADE_ROW)
    | {SKETCH: kinds.list_of(kinds.number_or_null), LOGITS: lambda value: value is True},
)
_INSIDE = kinds.record(
    dict.fromkeys(("stem", "key", "why"), kinds.text),
    {"shapes": kinds.list_of(_is_shape)},
)
_SCALES = kinds.dict_of(kinds.dict_of(_is_scale))


@dataclass
class Verification:
    """What verifying a bundle found."""

    root: str = ""
    commit: str = ""
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
        """What --json writes."""
        return {**vars(self), "not_derived": dict(self.not_derived)}


def verify_bundle(path: Path, root: str = "") -> Verification:
    """Verify a bundle; raises ArchiveError for a file that is none, or that is not to be unpacked.

    root   what its author says that the manifest's hash is; empty: unknown
    """
    with TemporaryDirectory(prefix="verify-") as name, Archive(path) as archive:
        folder = Path(name)
        manifest, found_root = archive.manifest()
        found = Verification(root=found_root, files=len(archive.entries))
        if archive.comment != found_root:
            found.problems.append(f"{MANIFEST} is not the one that the bundle was written with")
        if root and root.strip().lower() != found_root:
            found.problems.append(
                f"the root is {found_root}, not {printable(root.strip())}: this is another bundle"
            )
        found.problems += file_problems(manifest, archive, folder)
        try:
            _verify_parts(manifest, folder, found)
        except _Odd as error:
            found.problems.append(f"{MANIFEST}: {error}")
    return found


class _Odd(Exception):
    """JSON of somebody else that is not as a bundle has it, in a sentence."""


def _verify_parts(manifest: Mapping, folder: Path, found: Verification) -> None:
    parts = _of(manifest, "parts", list)
    strict, allow = _of(manifest, "strict", bool), _of(manifest, "allow", list)
    found.commands = [printable(str(c)) for c in _of(manifest, "commands", list)]
    commit = manifest.get("commit")
    commit = commit if isinstance(commit, dict) else {}
    found.commit = printable(str(commit.get("id")))
    found.commit += " and uncommitted changes" if commit.get("changed") else ""
    told: list[Sidecar] = []
    names: set[str] = set()
    for about in parts:
        if not isinstance(about, dict):
            raise _Odd("one of its parts is no object")
        part = _Part(about, folder, strict, "nan" in allow)
        if part.name in names:
            raise _Odd(f"it names {part.name} twice")
        names.add(part.name)
        try:
            part.verify()
        except _Odd as error:
            part.problem(str(error))
        except (UserError, OSError) as error:
            part.problem(str(error).replace(f"{folder}/", ""))
        except _ODD_JSON as error:
            part.problem(f"it is not as a bundle has it ({type(error).__name__}: {error})"[:300])
        told += part.sidecars.values()
        part.report(found)
    if _of(manifest, "rows", int) != found.rows:
        found.problems.append(
            f"{MANIFEST} speaks of {manifest['rows']} rows, and {found.rows} are there"
        )
    _compare_manifest(manifest, told, found)
    if not found.rows:
        found.problems.append("it holds no row: nothing is shown")


def _compare_manifest(manifest: Mapping, told: Sequence[Sidecar], found: Verification) -> None:
    """What the manifest repeats of the sidecars must be what they say."""
    seeds = sorted({sidecar.seed for sidecar in told if sidecar.seed is not None})
    if manifest.get("seeds") != seeds:
        found.problems.append(f"{MANIFEST}: its seeds are not those of the sidecars, {seeds}")
    environments = [plan.environment_of(str(sidecar.side), sidecar) for sidecar in told]
    listed = _of(manifest, "environments", list)
    if any(one not in listed for one in environments) or any(
        one not in environments for one in listed
    ):
        found.problems.append(f"{MANIFEST}: its environments are not those of the sidecars")


def _of(record: Mapping, name: str, kind: type):
    value = record.get(name)
    if type(value) is not kind:
        raise _Odd(f"its {name} is not as a bundle has it")
    return value


class _Part:
    """One step of one model: all that its files say of each other."""

    def __init__(self, about: Mapping, folder: Path, strict: bool, allow_nan: bool):
        self.about = about
        self.base = folder
        self.name: str = _of(about, "folder", str)
        self.submission: str = _of(about, "submission" if "submission" in about else "hand_in", str)
        if not is_safe(self.name) or not is_safe(self.submission):
            raise _Odd("a part's folder is no name for a folder")
        self.folder = folder / self.name
        self.strict, self.allow_nan = strict, allow_nan
        self.stems: list[str] = _of(about, "stems", list)
        self.guide: str = _of(about, "guide", str)
        for stem in (*self.stems, self.guide):
            if not isinstance(stem, str) or not is_safe(stem):
                raise _Odd("a stem is no name for a file")
        self.rows: list[dict] = []
        self.of_place: dict[plan.Place, dict] = {}
        self.sidecars: dict[str, Sidecar] = {}  # file of a log -> what its sidecar says
        self.derived: set[int] = set()  # ids of rows
        self.settled = 0
        self.lines = self.arrays = 0
        self.guide_passed: bool | None = None
        self.problems: list[str] = []
        self.of_groups: dict[str, dict[str, float]] = {}  # stem -> group -> its largest scale

    def problem(self, sentence: str, file: str = "") -> None:
        """Note what is wrong."""
        self.problems.append(f"{self.name}{f'/{file}' if file else ''}: {sentence}")

    def report(self, found: Verification) -> None:
        """Add what was found to what was found of all."""
        found.rows += len(self.rows)
        found.verdicts.append(
            {
                "part": printable(self.name.partition("/")[2].replace("/", ", ")),
                "verdict": worst([row["verdict"] for row in self.rows]),
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
            self.problems[MOST_PROBLEMS:] = [f"{self.name}: and {more:,} more"]
        found.problems += self.problems
        for row in self.rows:
            if id(row) not in self.derived:
                found.not_derived[NO_TENSORS if row["stem"] else BY_STEP] += 1
        red = [r for r in self.rows if r["stem"] and r["verdict"] not in AGREEING]
        without = [r for r in red if id(r) not in self.derived]
        if without:
            found.notes.append(
                f"{self.name}: {len(without)} rows that are no plain agreement have no tensors "
                f"inside, such as {printable(without[0]['key'])} ({without[0]['verdict']})"
            )
        if self.settled:
            found.notes.append(f"{self.name}: {self.settled} rows {SETTLED}")

    def verify(self) -> None:
        """All of it."""
        self.read_rows()
        self.check_summary()
        self.read_sidecars()
        self.check_keys()
        self.check_witnesses()
        made, records, scales = self.read_made(), self.read_inside(), self.read_scales()
        self.check_choice_of_rows(records)
        for stem in self.stems:
            inside = [r for r in records if r["stem"] == stem]
            self.make_again(stem, made[stem], inside, scales.get(stem, {}))
        self.check_submission()

    # ---- rows -----------------------------------------------------------------------------------

    def lines_of(self, name: str) -> Iterator[dict]:
        """The objects of a file of JSON lines."""
        for number, line in enumerate(self.bytes_of(name).splitlines(), 1):
            yield parse_json(line, f"{name}, line {number}")

    def bytes_of(self, name: str) -> bytes:
        path = self.folder / name
        if not path.is_file():
            raise _Odd(f"{name} is missing")
        return path.read_bytes()

    def read_rows(self) -> None:
        """Every row, with numbers where numbers belong."""
        rows = list(self.lines_of(plan.ROWS))
        for row in rows:
            if not _ROW(row):
                raise _Odd(f"{plan.ROWS}: {printable(str(row.get('key')))} is no row")
            place = plan.place_of(row)
            if place in self.of_place and row["stem"]:
                raise _Odd(f"{plan.ROWS} has {printable(row['key'])} twice")
            self.of_place[place] = row
            key = printable(row["key"])
            if row["stem"] not in ("", *self.stems):
                raise _Odd(f"{plan.ROWS}: {key} is of a log that is not listed")
            if row["step"] != self.about.get("number") or row["model"] != self.about.get("model"):
                self.problem(f"{key} is a row of another step or model", plan.ROWS)
            if sentence := contradiction(row):
                self.problem(f"{key}: {sentence}", plan.ROWS)
        self.rows = rows

    def check_summary(self) -> None:
        """What all rows come to."""
        found = plan.told_of_rows(self.rows, self.bytes_of(plan.ROWS))
        if self.about.get("rows") != found.pop("rows"):
            self.problem(f"these are not the rows that {MANIFEST} was written for", plan.ROWS)
        for stem in self.stems:
            passed = [row["guide_passed"] is True for row in self.rows if row["stem"] == stem]
            if stem == full_stem(self.guide) and passed:
                found["guide_all_passed"] = all(passed)
        for name, value in found.items():
            if self.about.get(name) != value:
                self.problem(f"its rows come to the {name} {value}, and {MANIFEST} says otherwise")

    # ---- sidecars -------------------------------------------------------------------------------

    def read_sidecars(self) -> None:
        """What the sidecars say of the logs and of each other."""
        logs: dict[Path, LogName] = {}
        told = _of(self.about, "logs", dict)
        for file, about in told.items():
            name = LogName.parse(file) if is_safe(file) and "/" not in file else None
            if name is None or not isinstance(about, dict):
                raise _Odd(f"{printable(file)} is no log's name")
            path = self.folder / file
            sidecar = read_sidecar(path)
            if sidecar is None:
                self.problem("its sidecar is missing", file)
                continue
            self.sidecars[file] = sidecar
            logs[path] = name
            if sidecar.seal is not None and not sidecar.sealed:
                self.problem("its sidecar was edited: it does not fit its own seal", file)
            if about.get("sha256") != sidecar.log_sha256:
                self.problem(f"its sidecar is of another log than {MANIFEST} says", file)
            inside = about.get("inside")
            if (inside == "none") == path.is_file():
                self.problem(f"{MANIFEST} says otherwise of whether it is inside", file)
            if inside == "whole" and path.is_file() and file_sha256(path) != sidecar.log_sha256:
                self.problem("it is not the log that its sidecar describes", file)
            if sidecar.model != self.about.get("model"):
                self.problem("its sidecar is of another model", file)
        for path in sorted(self.folder.glob("*.npy")):
            if path.name not in told:
                self.problem(f"{MANIFEST} does not speak of this log", path.name)
        for stem in self.stems:
            for side in SIDES:
                if str(LogName(stem, side)) not in told:
                    raise _Odd(f"there is no {LogName(stem, side)}")
        for sentence in sidecar_problems(logs, {p: self.sidecars[p.name] for p in logs}):
            self.problem(sentence)

    def check_keys(self) -> None:
        """Each key that the sidecars list has a row, and each row is of a key that they list."""
        for stem in self.stems:
            sides = [self.sidecars.get(str(LogName(stem, side)), Sidecar()) for side in SIDES]
            listed = [set(sidecar.places) for sidecar in sides]
            rows = {key for of, key in self.of_place if of == stem}
            choices = [
                {k for k, name in sidecar.classes.items() if name == CHOICE} for sidecar in sides
            ]
            missing = (listed[0] & listed[1]) - rows - choices[0] - choices[1]
            if missing:
                self.problem(
                    f"{len(missing)} tensors of both sides' {stem} logs have no row, such as "
                    f"{printable(min(missing))}",
                    plan.ROWS,
                )
            more = rows - listed[0] - listed[1] if all(listed) else set()
            if more:
                self.problem(
                    f"{len(more)} rows are of no tensor of the {stem} logs, such as "
                    f"{printable(min(more))}",
                    plan.ROWS,
                )

    def check_witnesses(self) -> None:
        """What the sidecars say of each side's gradient by itself must be what its rows say."""
        for row in self.rows:
            parts = _WITNESS.fullmatch(row["key"]) if not row["stem"] else None
            if parts is None:
                continue
            file = LogName(full_stem(self.guide), parts["side"], FLOAT64)
            seen = self.sidecars.get(str(file), Sidecar()).witness.get(parts["case"])
            if seen is None:
                self.problem(f"{printable(row['key'])}: no sidecar says so", plan.ROWS)
                continue
            off = seen["sgd_off"]
            if parts["kind"] == "finite_difference":
                rise, slope = seen.get("finite_difference"), seen["directional"]
                off = None if rise is None or slope is None else abs(rise - slope)
            if not same_number(row["gap"], off):
                self.problem(f"{printable(row['key'])}: its sidecar says {_shown(off)}", plan.ROWS)

    # ---- which rows have their tensors inside ----------------------------------------------------

    def read_made(self) -> dict[str, dict[str, dict]]:
        """Stem -> key -> what was made of each tensor; by itself its row, where nothing is said."""
        made: dict[str, dict[str, dict]] = {stem: {} for stem in self.stems}
        for stem, key in self.of_place:
            if stem:
                made[stem][key] = {OWN: {}}
        for record in self.lines_of(plan.MADE):
            stem, key = record.pop("stem", None), record.pop("key", None)
            if (stem, key) not in self.of_place or not isinstance(record.get(OWN), dict):
                raise _Odd(f"{plan.MADE} is not as a bundle has it")
            made[stem][key] = record
        for stem, keys in made.items():
            for key, of_key in keys.items():
                row = {n: v for n, v in self.of_place[stem, key].items() if n != "stem"}
                of_key[OWN] = {**row, **of_key[OWN]}
                if not _MADE(of_key):
                    raise _Odd(f"{plan.MADE}: {printable(key)} is not as a bundle has it")
        return made

    def read_inside(self) -> list[dict]:
        """Which rows have their tensors inside."""
        records, seen = [], set()
        for record in self.lines_of(plan.INSIDE):
            if not _INSIDE(record):
                raise _Odd(f"{plan.INSIDE} is not as a bundle has it")
            place = plan.place_of(record)
            if place in seen or place not in self.of_place:
                raise _Odd(f"{plan.INSIDE}: {printable(place[1])} is there twice, or is no row")
            seen.add(place)
            records.append(record)
        if self.about.get("inside") != len(records):
            self.problem(f"it has {len(records)} rows, and {MANIFEST} says otherwise", plan.INSIDE)
        return records

    def read_scales(self) -> dict[str, dict[str, tuple[float, str | None]]]:
        """S of each group, and the key that has it."""
        scales = parse_json(self.bytes_of(plan.SCALES), plan.SCALES)
        if not _SCALES(scales):
            raise _Odd(f"{plan.SCALES} is not as a bundle has it")
        return scales

    def check_choice_of_rows(self, records: Sequence[Mapping]) -> None:
        """The rows inside must be those that the rule of choice gives, none picked by hand."""
        inside = {plan.place_of(record): record["why"] for record in records}
        left_out = {
            (entry.get("stem"), entry.get("key"))
            for entry in _of(self.about, "left_out", list)
            if isinstance(entry, dict)
        }
        needed = [p for p in plan.not_green(self.rows) if p not in inside and p not in left_out]
        first = [p for p in plan.most_used(self.rows) if p not in left_out]
        needed += [p for p in first[: plan.WORST] if p not in inside]
        for _, key in needed[:3]:
            sentence = f"the tensors of {printable(key)} should be inside, and are not"
            self.problem(sentence, plan.INSIDE)
        drawn = plan.drawn(self.rows, self.bytes_of(plan.ROWS))
        order = [place for place in drawn if place not in left_out]
        sampled = {place for place, why in inside.items() if why == plan.SAMPLE}
        ahead = 0
        for place in order:
            if place not in inside:
                break
            ahead += place in sampled
        if ahead < len(sampled):
            self.problem("its sample is not the one that the hash of all rows draws", plan.INSIDE)

    # ---- the rule, once more ---------------------------------------------------------------------

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
        """Whether the tensors that are inside give what was made of a key."""
        key = record["key"]
        shapes = {(name, k): tuple(shape) for name, k, shape in record.get("shapes", ())}
        for (_, k), shape in shapes.items():
            other = self.of_place.get((record["stem"], k))
            if other is not None and tuple(other["shape"]) != shape:
                self.problem(f"{printable(key)}: another shape of {printable(k)}", plan.INSIDE)
        again, reads = watched.make(key, made, shapes)
        if not reads.tensors:
            self.problem(f"the tensors of {printable(key)} are not in the logs", plan.INSIDE)
            return False
        for name, told in made.items():
            if same_made(told, again[name]):
                continue
            if not isinstance(told, dict) or not isinstance(again[name], dict):
                self.problem(f"{printable(key)}: its {name} is not that of its tensors", plan.MADE)
                return False
            named = "" if name == OWN else f" ({name})"
            wrong = differences(told, again[name])
            self.tell_wrong(key, wrong, again[name], told, "by the rule", named)
            return False
        return True

    def settle(self, stem: str, watched: Watched, made: Mapping[str, Mapping]) -> set[str]:
        """The keys of rows that are what all rows together come to, by what was made of each."""
        try:
            again = watched.settle(made)
        except _ODD_JSON as error:
            self.problem(f"it is not as a bundle has it ({type(error).__name__})", plan.MADE)
            return set()
        found = set()
        for key, settled in again.items():
            row, alone = self.of_place[stem, key], settled.as_json()
            wrong = differences(row, alone)
            if not wrong:
                found.add(key)
            elif _may_settle(row, alone, wrong, watched.strict):
                found.add(key)
                self.settled += 1
            else:
                self.tell_wrong(key, wrong, alone, row, "by all rows together")
        return found

    def tell_wrong(self, key: str, wrong: Sequence[str], again, told, how: str, of="") -> None:
        """Say that a field is another one when it is made again."""
        name = "verdict" if "verdict" in wrong else wrong[0]
        self.problem(
            f"{printable(key)}: its {name}{of} is {_shown(again[name])} {how}, and "
            f"{_shown(told.get(name))} is written",
            plan.ROWS,
        )

    def check_scales(self, stem: str, watched: Watched, records: Sequence[Mapping], scales) -> None:
        """S must be that of the tensor that it is said to be of, and none inside may be larger."""
        reference = "ref64" if "ref64" in watched.logs else "ref32"
        log = watched.logs[reference]
        largest: dict[str, float] = {}
        for record in records:
            key = record["key"]
            group = watched.parse(key).group
            if group and group not in scales:
                self.problem(f"S of {printable(group)} is missing", plan.SCALES)
            if group and key in log:
                largest[group] = max(largest.get(group, 0.0), largest_scale([log[key]]))
        for group, (scale, holder) in scales.items():
            if group not in largest:
                continue
            near = 1e-9 * max(abs(scale), largest[group])
            off = largest[group] - scale
            if off > near or holder is not None and off < -near:
                self.problem(
                    f"S of {printable(group)} is {largest[group]:.9g} by the tensors of the {stem} "
                    f"logs, and {scale:.9g} is written",
                    plan.SCALES,
                )
            most = self.largest_of_group(stem, watched).get(group)
            if holder is None and most is not None and scale > most * (1 + 1e-6):
                self.problem(
                    f"S of {printable(group)} is {scale:.9g}, and no row of it is larger than "
                    f"{most:.9g}",
                    plan.SCALES,
                )
            if holder is not None and holder not in log:
                self.problem(f"{printable(holder)}, of which S is, is not inside", plan.SCALES)

    def largest_of_group(self, stem: str, watched: Watched) -> dict[str, float]:
        """Group -> the largest scale of its rows; of groups in which each row has one."""
        if stem not in self.of_groups:
            found: dict[str, float] = {}
            for (of, key), row in self.of_place.items():
                group = watched.parse(key).group if of == stem else ""
                if group:
                    scale = np.inf if row["scale"] is None else row["scale"]
                    found[group] = max(found.get(group, 0.0), scale)
            self.of_groups[stem] = {g: s for g, s in found.items() if s < np.inf}
        return self.of_groups[stem]

    # ---- the submission -------------------------------------------------------------------------

    def check_submission(self) -> None:
        """The guide's pair, its report, and the same in the other dialects."""
        if not has_pair(self.guide):
            return
        dialects = submission.names(self.guide)
        own = {
            which: f"{self.submission}/{submission.NLP}/{n}" for which, n in dialects["nlp"].items()
        }
        there = {which for which, name in own.items() if (self.base / name).is_file()}
        for dialect, names in dialects.items():
            for which, name in names.items():
                other = self.base / self.submission / dialect / name
                shown = f"{self.submission}/{dialect}/{name}"
                if (which in there) != other.is_file():
                    self.problems.append(f"{shown}: one dialect has it, and another has not")
                elif which in there and other.read_bytes() != (self.base / own[which]).read_bytes():
                    self.problems.append(f"{shown} is not the same file as {own[which]}")
        if not there.issuperset(SIDES):
            if there:
                self.problems.append(f"{self.submission}: a side's log of {self.guide} is missing")
            elif self.about.get("guide_passed") is not None:
                self.problems.append(f"{self.submission}: the pair of {self.guide} is missing")
            return
        with ExitStack() as stack:
            logs = {s: stack.enter_context(read_log(self.base / own[s])) for s in SIDES}
            for side in SIDES:
                self.check_selection(own[side], side, logs[side])
            self.check_report(own, logs)

    def check_report(self, own: Mapping[str, str], logs: Mapping[str, Log]) -> None:
        """Each line of reprod_log's report, and whether the guide's rule is passed."""
        threshold = self.about.get("threshold")
        if threshold is None or not kinds.number_or_null(threshold):
            raise _Odd("its threshold is no number")
        common = [key for key in logs["torch"] if key in logs["paddle"]]
        if len(common) < max(map(len, logs.values())):
            self.problems.append(f"{own['paddle']}: its keys are not those of {own['torch']}")
        sides = list(logs.values())
        means = [submission.mean_difference(*(log[key] for log in sides)) for key in common]
        passed = bool(means) and all(bool(mean <= threshold) for mean in means)
        self.guide_passed = passed
        if self.about.get("guide_passed") is not passed:
            word = "passed" if passed else "not passed"
            self.problems.append(f"{own['paddle']}: the guide's rule is {word}, not as {MANIFEST}")
        path = self.base / own[submission.REPORT]
        if not path.is_file():
            return
        text = path.read_text(encoding="utf-8", errors="replace")
        problems = submission.report_problems(text, logs["torch"], logs["paddle"], threshold)
        self.problems += [f"{own[submission.REPORT]}: {problem}" for problem in problems]
        self.lines += 0 if problems else len(common)

    def check_selection(self, name: str, side: str, log: Log) -> None:
        """The guide's log holds what its sidecar says that it was selected from."""
        path = self.base / name
        sidecar = read_sidecar(path)
        if sidecar is None:
            self.problems.append(f"{sidecar_path(name)} is missing")
            return
        if sidecar.log_sha256 != file_sha256(path):
            self.problems.append(f"{name} is not the file that its sidecar describes")
        if sidecar.seal is not None and not sidecar.sealed:
            self.problems.append(f"{sidecar_path(name)} was edited: it does not fit its own seal")
        if (sidecar.side, sidecar.framework) != (side, side):
            self.problems.append(f"{sidecar_path(name)}: it is {sidecar.side}'s, not {side}'s")
        source = sidecar.selected
        if not source:
            self.problems.append(f"{sidecar_path(name)} does not say what it was selected from")
            return
        full = self.sidecars.get(source["log"])
        if full is None or full.log_sha256 != source["sha256"]:
            self.problems.append(f"{sidecar_path(name)}: it was selected from another log")
            return
        for entry in ("seed", "preset", "model", "inputs_sha256", "weights_sha256", "framework"):
            if getattr(full, entry) != getattr(sidecar, entry):
                self.problems.append(
                    f"{sidecar_path(name)}: another {entry} than {source['log']}'s sidecar says"
                )
        if set(log) != set(source["keys"]):
            self.problems.append(f"{name}: its keys are not those that its sidecar lists")
            return
        of_torch = ResultFolder(self.folder).log(full_stem(self.guide), SIDES[0])
        whole = [self.folder / source["log"], of_torch]
        if not all(path.is_file() for path in whole):
            return
        with ExitStack() as stack:
            logs = [stack.enter_context(read_log(path)) for path in whole]
            for key, full_key in source["keys"].items():
                needed = logs if is_over_torch(key, full_key) else logs[:1]
                if not all(full_key in one for one in needed):
                    continue
                if not same_bits(log[key], np.asarray(guide_value(key, full_key, *logs))):
                    self.problems.append(
                        f"{name}: {printable(key)} is not what {self.name}/{source['log']} holds"
                    )
                else:
                    self.arrays += 1


def _shown(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value))[:120]


def contradiction(row: Mapping) -> str:
    """What a row's own numbers say against it; empty for nothing."""
    if row["measure"] == "claim":
        off, allowed = (np.nan if row[n] is None else row[n] for n in ("gap", "allowed"))
        wanted = claim(row["key"], off, allowed)
        if off != off and row["verdict"] in ("DIVERGED", "INVALID"):
            return ""  # infinity, for which JSON has no word
        # What shows nothing is off as what differs is.
        written = "DIVERGED" if row["verdict"] == "UNDECIDED" else row["verdict"]
        if (wanted.verdict, wanted.origin) != (written, row["origin"]):
            return f"{wanted.verdict} by its own numbers, and {row['verdict']} is written"
        return ""
    if row["verdict"] == "ROUNDING" and not row["excuse"] and row["gap"] is not None:
        if row["allowed"] is not None and not row["gap"] <= row["allowed"]:
            return "ROUNDING is written, and its gap is more than was allowed"
    if row["verdict"] == "IDENTICAL" and row["max_abs"]:
        return "IDENTICAL is written, and its values differ"
    if row["mean_abs"] is not None and row["max_abs"] is not None:
        if row["mean_abs"] > row["max_abs"] * (1 + 1e-3):
            return "its mean difference is more than its largest"
        guide = bool(np.float32(row["mean_abs"]) <= np.float32(tolerance("guide")))
        near = abs(row["mean_abs"] - tolerance("guide")) <= 1e-9 * tolerance("guide")
        if row["guide_passed"] is not None and row["guide_passed"] != guide and not near:
            return "whether the guide's rule is passed is not what its mean difference says"
    return ""


def _may_settle(row: Mapping, alone: Mapping, wrong: Sequence[str], strict: bool) -> bool:
    """Whether what is inside a model, or half precision, may make this of a row.

    alone   the row before
    wrong   the fields in which they differ
    """
    if alone["verdict"] == row["verdict"]:
        return set(wrong) <= {"note", "origin", "excuse"}
    if row["verdict"] == "INSIDE" or row["excuse"].startswith("matched by value"):
        return row["inside"] and not strict
    if row["verdict"] == "CONSTANT":  # what operators bring, shown in a run that is fed nothing
        return alone["verdict"] == "CARRIED"
    if row["verdict"] == "PRECISION":  # in half precision each module is judged by itself too
        return row["measure"].startswith(BY_ITSELF)
    return row["verdict"] in ("INVALID", "DIVERGED") and not strict
