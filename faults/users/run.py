"""Correct pairs of users' kinds: every check of every pair must pass.

    python -m faults.users                          all of them (make faults runs them too)
    python -m faults.users --only llama --step 4    pairs whose name holds a word, one step
    python -m faults.users --kind casts             one kind (registry.py lists them)
    python -m faults.users --list                   what would run

A run is one step of one pair, in eval or in train mode.  The pairs of a step share a check, so that
their processes start once.  Exit status 0: no false alarm.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults import portions
from faults.checkout import CHECKS
from faults.portions import Portion
from faults.users.registry import KINDS, PAIRS, UserPair
from faults.warm import Interpreters
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.program import Parser, guarded
from twincheck.common.verdict.row import exit_code, worst
from twincheck.extras.shared.jobs import captured

FOLDER = Path(__file__).resolve().parent / "pairs"
CHUNK = {1: 9, 2: 6, 3: 18, 4: 6, 5: 3}  # pairs of one check
_COST = {1: 1, 2: 3, 3: 1, 4: 6, 5: 12}  # of a step, roughly: the long ones start first


@dataclass(frozen=True)
class Run:
    """One step of one pair."""

    pair: UserPair
    step: int
    train: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Of its check."""
        return (*self.pair.options, *(("--mode", "train") if self.train else ()))

    @property
    def name(self) -> str:
        """How it is told."""
        return " ".join((self.pair.name, *self.options))


def runs_of(pairs: Sequence[UserPair]) -> list[Run]:
    """Every run that must pass."""
    return [Run(pair, step) for pair in pairs for step in pair.steps] + [
        Run(pair, step, train=True) for pair in pairs for step in pair.train
    ]


def run(
    workers: int,
    on_progress: Callable[[str], None],
    runs: Sequence[Run] | None = None,
    python: str = sys.executable,
) -> list[dict]:
    """Judge runs, by default all of them; a dict for each, in their order.

    workers   how many checks at a time
    python    what runs them

    name, kind, step, verdict, exit_code (0: passes), rows, inside (rows that only locate), first
    (key, verdict and note of the row that is told), sentence (of what could not be compared) and
    guide_passed, as faults/hard.py's.
    """
    runs = runs_of(PAIRS) if runs is None else runs
    found: dict[Run, dict] = {}

    def take(portion: Portion, judged: list[dict]) -> None:
        found.update(zip(portion.items, judged, strict=True))
        on_progress(f"users' pairs: {len(found)} of {len(runs)}")

    portions.run(_judge, _chunks(runs), workers, python, take)
    return [found[one] for one in runs]


def _chunks(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that one check can judge together; the costly ones first."""
    groups: dict[tuple, list[Run]] = {}
    for one in runs:
        groups.setdefault((one.step, one.options), []).append(one)
    chunks = [
        group[i : i + CHUNK[step]]
        for (step, _), group in groups.items()
        for i in range(0, len(group), CHUNK[step])
    ]
    return sorted(chunks, key=lambda chunk: -len(chunk) * _COST[chunk[0].step])


def _judge(portion: Portion) -> list[dict]:
    """Run one check of several pairs, and cut its report into them."""
    chunk, out, python = portion.items, portion.folder(), portion.python
    step, options = chunk[0].step, chunk[0].options
    report = out / "rows.json"
    command = [python, "-W", "ignore", str(ROOT / CHECKS[step]), *options]
    command += [word for one in chunk for word in ("--model", str(FOLDER / one.pair.name))]
    command += ["--out", str(out), "--no-report", "--json", str(report)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.setdefault("OMP_NUM_THREADS", "1")  # a worker has one core
    start = time.perf_counter()
    done = captured(command, env=environment)
    seconds = round((time.perf_counter() - start) / len(chunk), 2)
    if not report.is_file():
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return [_summary(one, [], {one.pair.name: lines[-1]}, seconds) for one in chunk]
    document = json.loads(report.read_text())
    shutil.rmtree(out)
    rows: dict[str, list[dict]] = {}
    for row in document["rows"]:
        rows.setdefault(row["model"], []).append(row)
    errors = document["errors"]
    return [_summary(one, rows.get(one.pair.name, []), errors, seconds) for one in chunk]


def _summary(one: Run, rows: list[dict], errors: dict[str, str], seconds: float) -> dict:
    """What the rows of one pair come to."""
    sentence = errors.get(one.pair.name, "")
    verdicts = [row["verdict"] for row in rows]
    allowed = [word.upper() for flag, word in _pairs(one.options) if flag == "--allow"]
    bad = [row for row in rows if exit_code([row["verdict"]], allowed)]
    told = next((row for row in bad if row["verdict"] != "CARRIED"), bad[0] if bad else None)
    guides = [row["guide_passed"] for row in rows if row["guide_passed"] is not None]
    return {
        "name": f"users/{one.name}",
        "kind": one.pair.kind,
        "step": one.step,
        "verdict": "INVALID" if sentence else worst(verdicts),
        "exit_code": 2 if sentence else exit_code(verdicts, allowed),
        "rows": len(rows),
        "inside": verdicts.count("INSIDE"),
        "guide_passed": all(guides) if guides else None,
        "seconds": seconds,
        "worst": told and {key: told[key] for key in ("key", "verdict", "gap", "allowed", "note")},
        "sentence": sentence,
    }


def _pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(options, options[1:], strict=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--only", action="append", metavar="WORD", help="pairs so named")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="pairs of this kind")
    parser.add_argument("--step", type=int, action="append", help="this step alone")
    portions.take_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    parser.add_argument("--list", action="store_true", help="run nothing, say what would run")
    parser.add_argument("--cold", action="store_true", help="without warm interpreters: slower")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    chosen = [
        one
        for one in runs_of(PAIRS)
        if (not options.only or any(word in one.pair.name for word in options.only))
        and (not options.kind or one.pair.kind in options.kind)
        and (not options.step or one.step in options.step)
    ]
    if not chosen:
        raise UserError("no pair has such a name, kind and step: --list shows them all")
    if options.list and (options.json or options.cold):
        given = "--json" if options.json else "--cold"
        raise UserError(f"--list runs nothing: leave out {given}")
    if options.list:
        for one in chosen:
            print(f"step {one.step}  {one.pair.kind:10} {one.name}")
        return 0
    with Interpreters(options.cold) as warm:
        found = run(options.workers, lambda text: print(text, flush=True), chosen, warm.python)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, allow_nan=False))
    for one in found:
        if one["exit_code"]:
            print(f"false alarm: {told(one)}")
    alarms = sum(one["exit_code"] != 0 for one in found)
    print(f"{alarms} false alarms in {len(found)} runs of {len({o.pair for o in chosen})} pairs")
    return 1 if alarms else 0


def told(one: dict) -> str:
    """A run that does not pass, in one line."""
    head = f"step {one['step']}, {one['name']}: {one['verdict']}"
    if one["sentence"]:
        return f"{head}: {one['sentence']}"
    row = one["worst"]
    numbers = "" if row["gap"] is None else f" ({row['gap']:.2e} of {row['allowed'] or 0:.2e})"
    return f"{head} {row['key']}{numbers} {row['note']}"


if __name__ == "__main__":
    sys.exit(main())
