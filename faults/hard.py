"""Correct pairs that are hard to judge: none of them may be called wrong.

    python -m faults.hard                 all of them (make faults runs them too)
    python -m faults.hard --only deep     one folder of faults/pairs

A pair is one case of a folder under faults/pairs, or of a built-in model, in one step, under one
seed.  Exit status 0: no false alarm.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faults import portions
from faults.checkout import CHECKS
from faults.portions import Portion
from faults.warm import Interpreters
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.program import Parser, guarded
from twincheck.common.verdict.row import exit_code, worst
from twincheck.extras.shared.jobs import captured

PAIRS = Path(__file__).resolve().parent / "pairs"


@dataclass(frozen=True)
class Run:
    """One check of one folder, or of a built-in model: every case of a preset."""

    folder: str
    step: int
    preset: str = "default"
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the run is named before its cases."""
        parts = [self.folder, *([] if self.preset == "default" else [self.preset]), *self.options]
        return " ".join(part for part in parts if not part.startswith("--"))


_TRAINED = ("--weights", "trained-like")
_BFLOAT16 = ("--dtype", "bfloat16")
RUNS = (
    Run("operators", 4),  # the long ones first
    Run("deep", 4, options=(*_TRAINED, "--seed", "1")),
    Run("operators", 1),
    Run("networks", 4),
    Run("transformer", 4, "backward"),
    Run("networks", 4, "gauge"),
    Run("networks", 4, "norms"),
    Run("casts", 4),
    Run("casts", 4, "relative"),
    Run("casts", 4, "one_sided"),
    Run("choices", 4),
    Run("transformer", 1),
    Run("deep", 1, options=(*_TRAINED, "--seed", "2")),
    Run("deep", 1, options=(*_TRAINED, "--seed", "3")),
    Run("networks", 1),
    Run("choices", 1),
    Run("transformer", 3),
    Run("networks", 3),
    Run("choices", 3),
    Run("halves", 1, "encoder", _BFLOAT16),
    Run("halves", 1, "vision", _BFLOAT16),
    Run("halves", 3, options=("--dtype", "float16")),
    Run("halves", 4, options=_BFLOAT16),
    Run("casts", 1, "half", _BFLOAT16),
    Run("casts", 1),
    Run("casts", 3),
    Run("decoder", 1),
    # Queries that are nearly alike: the top-u hangs on the last bits.
    Run("informer", 1, options=("--case", "near_ties", "--seed", "1")),
    Run("informer", 1, options=("--case", "near_ties", "--seed", "2")),
    Run("informer", 4, options=("--case", "near_ties", "--seed", "1")),
    Run("informer", 1, options=_TRAINED),
)


def run(
    workers: int,
    on_progress: Callable[[str], None],
    runs: Sequence[Run] = RUNS,
    python: str = sys.executable,
    look: Callable[[Run, dict, Path], object] | None = None,
    on_seen: Callable[[object], None] = lambda seen: None,
) -> list[dict]:
    """Judge every hard pair; a dict for each, in the order of RUNS.

    workers   how many at a time
    python    what runs the checks
    look      what is asked of a run's report and its logs; told to `on_seen`

    name, step, verdict, exit_code (0: right), rows, guide_passed, seconds (of its run, shared by
    its cases) and worst, the row that used most of what it was allowed.  Raises UserError where a
    run leaves no report.
    """
    found: dict[Run, list[dict]] = {}

    def take(portion: Portion, told: tuple[list[dict], object]) -> None:
        one = portion.items[0]
        found[one], seen = told
        on_seen(seen)
        on_progress(f"hard pairs: step {one.step}, {one.name}")

    portions.run(partial(_judge, look), [[one] for one in runs], workers, python, take)
    return [case for one in runs for case in found[one]]


def _judge(look: Callable | None, portion: Portion) -> tuple[list[dict], object]:
    """Run one check and cut its report into its cases."""
    one, out = portion.items[0], portion.folder()
    document, seconds = _checked(one, out, portion.python)
    seen = look and look(one, document, out)
    shutil.rmtree(out)
    cases: dict[str, list[dict]] = {}
    for row in document["rows"]:
        cases.setdefault(row["key"].split("/")[0], []).append(row)
    each = round(seconds / len(cases), 2)
    names = {case: f"{one.name}/{case}" for case in cases}
    return [_summary(names[case], one.step, rows, each) for case, rows in cases.items()], seen


def _checked(one: Run, out: Path, python: str) -> tuple[dict, float]:
    """One check's report, and how long it took."""
    report = out / "rows.json"
    command = [python, "-W", "ignore", str(ROOT / CHECKS[one.step])]
    folder = PAIRS / one.folder
    command += [
        "--model",
        str(folder) if folder.is_dir() else one.folder,
        "--preset",
        one.preset,
        *one.options,
    ]
    command += ["--out", str(out), "--no-report", "--json", str(report)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.setdefault("OMP_NUM_THREADS", "1")  # a worker has one core
    start = time.perf_counter()
    done = captured(command, env=environment)
    seconds = time.perf_counter() - start
    if not report.is_file():
        raise UserError(f"{one.name}: step {one.step} left no report: {done.stderr.strip()}")
    document = json.loads(report.read_text())
    if document["errors"]:
        sentence = "; ".join(document["errors"].values())
        raise UserError(f"{one.name}: step {one.step} could not be compared: {sentence}")
    return document, seconds


def _summary(name: str, step: int, rows: list[dict], seconds: float) -> dict:
    """What a case's rows come to."""
    verdicts = [row["verdict"] for row in rows]
    guides = [row["guide_passed"] for row in rows if row["guide_passed"] is not None]
    bad = [row for row in rows if exit_code([row["verdict"]])]
    measured = [row for row in rows if row["gap"] is not None and row["allowed"]]
    most = max(measured, key=lambda row: row["gap"] / row["allowed"], default=None)
    told = next((row for row in bad if row["verdict"] != "CARRIED"), most)
    return {
        "name": name,
        "step": step,
        "verdict": worst(verdicts),
        "exit_code": exit_code(verdicts),
        "rows": len(rows),
        "guide_passed": all(guides) if guides else None,
        "seconds": seconds,
        "worst": told and {key: told[key] for key in ("key", "verdict", "gap", "allowed", "note")},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--only", action="append", metavar="FOLDER", help="pairs of this folder")
    parser.add_argument("--step", type=int, action="append", help="pairs of this step alone")
    portions.take_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    folders = {one.folder for one in RUNS}
    unknown = set(options.only or []) - folders
    if unknown:
        raise UserError(
            f"--only {', '.join(sorted(unknown))}: hard pairs are in {', '.join(sorted(folders))}"
        )
    chosen = [
        one
        for one in RUNS
        if (not options.only or one.folder in options.only)
        and (not options.step or one.step in options.step)
    ]
    if not chosen:
        raise UserError("no hard pair is in these folders and steps")
    with Interpreters() as warm:
        pairs = run(options.workers, partial(print, flush=True), chosen, warm.python)
    if options.json:
        options.json.write_text(json.dumps(pairs, indent=1, allow_nan=False))
    alarms = [pair for pair in pairs if pair["exit_code"] != 0]
    for pair in alarms:
        print(f"false alarm: step {pair['step']}, {pair['name']}: {pair['verdict']}")
        print(f"  {pair['worst']}")
    print(f"{len(alarms)} false alarms in {len(pairs)} correct hard pairs")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
