"""A copy of the checkout in which faults are planted, one at a time, and what each check says."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from faults import peers
from faults.checkout import CHECKS, Checkout
from faults.fault import HARD, SMALL_CNN, TEXT_CLASSIFIER, USERS, Fault, cases_of
from faults.portions import Portion
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.row import HARMLESS
from twincheck.extras.shared.jobs import captured

# Of the logs that the two other tools are given: every tensor that is compared here.
STEMS = {1: "forward_all", 2: "metric_all", 3: "loss_all", 4: "bp_align_all", 5: "train_align_all"}
LIMITS = {5: 1.5e-3}  # reprod_log's, where the guide's is not 1e-6
# Torch's logs of the correct run are used again.
QUICK = ("--reuse", "torch", "--no-report")
QUICK_OTHER = ("--no-report",)  # of a further check
PAIRS = (SMALL_CNN, TEXT_CLASSIFIER, USERS, HARD)
SHOWN_ORIGINS = 8
BAD = ("DIVERGED", "INVALID", "PRECISION")


@dataclass(frozen=True)
class Check:
    """One check of one model with its options: what faults share."""

    step: int
    model: str
    arguments: tuple[str, ...] = ()
    other: str = ""  # the name of a further check in the step's folder

    @classmethod
    def of(cls, fault: Fault) -> "Check":
        """The check that must find a fault."""
        case = ("--case", fault.case) if fault.case else ()
        return cls(fault.step, fault.model, (*fault.arguments, *case), fault.check)

    @property
    def name(self) -> str:
        """The model's name, as the logs' folder has it."""
        return Path(self.model).name


class Workers:
    """Workers that judge portions at the same time, each one portion after the other."""

    def __init__(self):
        self.idle: list[Worker] = []

    def judge(self, portion: Portion) -> list[tuple[dict, dict]]:
        """Return what was found of each fault of one check, with its correct run."""
        worker = self.idle.pop() if self.idle else Worker(portion.folder(), portion.python)
        try:
            return [(worker.judge(f), worker.controls[Check.of(f)]) for f in portion.items]
        finally:
            self.idle.append(worker)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception) -> None:
        for worker in self.idle:
            worker.close()


class Worker:
    """Plants faults in a checkout of its own, in `folder`.

    python   what runs the checks; by default what any copy's does
    """

    def __init__(self, folder: Path, python: str | None = None):
        self.folder = folder
        self.checkout = Checkout(folder, pairs=PAIRS)
        self.checkout.interpreter = (python,) if python else Checkout.interpreter
        self.checkout.captured = captured
        self.scratch = folder / "scratch"
        self.clean = folder / "clean"  # logs of correct runs, for faults that change logs
        self.controls: dict[Check, dict] = {}
        self.ignored: dict[Check, list[str]] = {}  # keys that one side alone has in a correct run

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def control(self, check: Check) -> dict:
        """The correct run of a check: no fault counts as caught unless this is green."""
        if check not in self.controls:
            start = time.perf_counter()
            done, told = self.run(check)
            self.ignored[check] = peers.one_sided(*self.float32_logs(check, self.logs(check)))
            self.controls[check] = {
                "step": check.step,
                "model": check.name,
                "arguments": list(check.arguments),
                "exit_code": done.returncode,
                "first": told.get("first_diverged"),
                "error": done.stderr.strip()[-500:] if done.returncode else "",
                "peers": self.ask_peers(check, self.logs(check)),
                "seconds": round(time.perf_counter() - start, 1),
            }
        return self.controls[check]

    def judge(self, fault: Fault) -> dict:
        """Plant one fault, run its check, take the fault out again; what was found."""
        check = Check.of(fault)
        control = self.control(check)
        start = time.perf_counter()
        earlier: dict[str, int] = {}
        if fault.after is not None:
            folder = self.tampered(fault, check)
            with _planted(self.checkout, fault):
                done, told = self.run(check, "--compare-only", "--out", str(self.scratch))
            says = self.ask_peers(check, folder)
        else:
            folder = self.logs(check)
            with _planted(self.checkout, fault):
                for step in fault.passes:
                    case = fault.case or cases_of(fault.model)[0]
                    done, _ = self.run(Check(step, fault.model, ("--case", case)))
                    earlier[str(step)] = done.returncode
                done, told = self.run(check)
            # A check that could not compare leaves the former logs, which say nothing of this one.
            compared = done.returncode in (0, 1)
            says = self.ask_peers(check, folder) if compared else peers.NO_LOGS
        found = self.found(fault, control["exit_code"] == 0, done, told)
        return found | {
            "earlier": earlier,
            "peers": says,
            "control_peers": control["peers"],
            "seconds": round(time.perf_counter() - start, 1),
        }

    def found(self, fault: Fault, control_is_green: bool, done, told: dict) -> dict:
        """Return the record of a fault: whether its check is red, and for the right reason."""
        first = told.get("first_diverged")
        sentence = " ".join(told.get("errors", {}).values()) or done.stderr.strip()
        wanted = 2 if fault.refused else 1
        rows = [row for row in told.get("rows", []) if row.get("origin") and row["verdict"] in BAD]
        right = fault.origin in sentence if fault.refused else fault.named(first or "")
        green = green_and_off(told.get("rows", []))
        caught = control_is_green and done.returncode == wanted and not green
        return {
            "id": fault.id,
            "area": fault.area,
            "what": fault.what,
            "model": fault.name,
            "step": fault.step,
            "wanted": fault.origin,
            "refused": fault.refused,
            "control_is_green": control_is_green,
            "exit_code": done.returncode,
            "caught": caught,
            "origin_right": caught and right,
            "verdict": told.get("verdict", ""),
            "first": first,
            "origins": [row["key"] for row in rows[:SHOWN_ORIGINS]],
            "green_and_off": green[:SHOWN_ORIGINS],
            "sentence": sentence[:400] if done.returncode == 2 else "",
            "planted": planted_lines(self.checkout.path(fault.file), fault),
            "marked": marked_line(told, Path(fault.file).name),
        }

    # ---- the checkout ---------------------------------------------------------------------------

    def logs(self, check: Check) -> Path:
        """Return the folder where a check leaves its logs."""
        return self.checkout.logs(check.step, str(Path(check.other) / check.name))

    def run(self, check: Check, *more: str) -> tuple:
        """The check in this copy: the finished process and its report."""
        model = str(self.checkout.path(check.model)) if "/" in check.model else check.model
        quick = () if "--compare-only" in more else QUICK_OTHER if check.other else QUICK
        arguments = ("--model", model, *check.arguments, *more, *quick)
        further = f"check-{check.other}" if check.other else check.step
        return self.checkout.rows(further, *arguments)

    def ask_peers(self, check: Check, folder: Path) -> dict[str, str]:
        """The two other tools' verdicts on a run's float32 logs."""
        logs, limit = self.float32_logs(check, folder), LIMITS.get(check.step, 1e-6)
        return peers.says(*logs, limit, self.ignored.get(check, ()))

    def float32_logs(self, check: Check, folder: Path) -> tuple[Path, Path]:
        """The logs that the guide compares."""
        files, stem = ResultFolder(folder), check.other or STEMS[check.step]
        return files.log(stem, "torch"), files.log(stem, "paddle")

    def tampered(self, fault: Fault, check: Check) -> Path:
        """A copy of the correct run's logs, after what the fault does to them."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        step = Path(CHECKS[check.step]).parent.name
        folder = self.scratch / step / check.name
        clean = self.clean / step / check.name
        if not clean.exists():  # the check's own folder holds what the fault before left there
            done, _ = self.run(check)
            if done.returncode != 0:
                raise RuntimeError(f"{fault.id}: a correct run failed: {done.stderr[-300:]}")
            shutil.copytree(self.logs(check), clean)
        shutil.copytree(clean, folder)
        other = self.scratch / "other" / step / check.name
        if fault.other is not None:
            out = str(self.scratch / "other")
            done, _ = self.run(Check(check.step, check.model, fault.other), "--out", out)
            if done.returncode != 0:
                raise RuntimeError(f"{fault.id}: its other run failed: {done.stderr[-300:]}")
        fault.after(folder, other)
        return folder


def planted_lines(path: Path, fault: Fault) -> list[int]:
    """Return the lines of a model's file with a fault that the right file does not have.

    None of a fault that no check of steps 1, 3 and 4 in float32 can see in the model's code.
    """
    if fault.step not in (1, 3, 4) or "--dtype" in fault.arguments or fault.refused:
        return []
    if not path.name.endswith("_model.py") or fault.after is not None:
        return []
    right = path.read_text()
    return changed_lines(right, fault.planted(right))


def changed_lines(right: str, wrong: str) -> list[int]:
    """Return the numbers of the lines of one text that are not another's; or where some lack."""
    matcher = SequenceMatcher(None, right.splitlines(), wrong.splitlines(), autojunk=False)
    found: list[int] = []
    for kind, _, _, begin, end in matcher.get_opcodes():
        if kind != "equal":
            found += range(begin + 1, max(end, begin + 1) + 1)
    return found


def marked_line(told: Mapping, file: str) -> int | None:
    """Return the line of a file that the first finding of a report names; None for another's."""
    first = next(iter(told.get("findings", [])), {}).get("paddle") or {}
    return first.get("line") if Path(first.get("file") or "").name == file else None


def green_and_off(rows: Sequence[Mapping]) -> list[str]:
    """Keys of rows that decide, are off by more than is allowed, and are called harmless."""
    return [
        row["key"]
        for row in rows
        if not row["inside"] and row["verdict"] in HARMLESS and row["verdict"] != "FLIP"
        if None not in (row["gap"], row["allowed"]) and row["gap"] > row["allowed"]
    ]


@contextmanager
def _planted(checkout: Checkout, fault: Fault) -> Iterator[None]:
    """Have a fault in the checkout for a while."""
    path = checkout.path(fault.file)
    undo = plant(path, fault.planted(path.read_text())) if fault.file else lambda: None
    try:
        yield
    finally:
        undo()


# What both sides share: its text is another one in the process of a side.
OF_ITS_SIDE = """import sys
from pathlib import Path
own = "{0}" in sys.modules or ".{0}." in " ".join(sys.orig_argv)
text = Path(__file__).with_suffix(".wrong" if own else ".right").read_text()
exec(compile(text, __file__, "exec"))
"""


def plant(path: Path, text: str, side: str = "paddle") -> Callable[[], None]:
    """Put a changed text in a file's place; returns what takes it back out.

    What both sides share, a step's script or an instrument, is changed for one side alone.
    """
    right = path.read_text()
    shared = (path.parent / side / path.name).is_file() or "\nSCRIPT = {" in right
    shared = shared or path.parent.name == "sides" and not path.stem.endswith(SIDES)
    texts = {path: text}
    if shared:
        texts = {path.with_suffix(".wrong"): text, path.with_suffix(".right"): right}
        texts[path] = OF_ITS_SIDE.format(side)
    for copy, content in texts.items():
        copy.write_text(content)

    def undo() -> None:
        path.write_text(right)
        for copy in texts.keys() - {path}:
            copy.unlink()

    return undo
