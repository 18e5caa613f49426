"""Plant faults in ResNet-18 and BERT-base, and see which check finds each, and where.

    python -m faults.everyday --torch-python PATH --paddle-python PATH
    python -m faults.everyday --only bert-epsilon --torch-python PATH --paddle-python PATH
    python -m faults.everyday --small …     BERT with 2 layers of 64; ResNet-18 without step 4

The Pythons are those that the examples' READMEs install, or one that holds the libraries of both; a
model whose libraries one of them lacks is left out, and told.  Images are 64 x 64, texts 16 tokens.
A correct run of each check comes first and must be green.  Exit status 0: every fault that was
planted was caught and named at its place; 2: none was planted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich")

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from faults.checkout import CHECKS
from faults.everyday_catalogue import BERT, FAULTS, PRELUDE, VISION, EverydayFault
from twincheck.common.check.guard import guarded
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import find_interpreter
from twincheck.common.system.processes import environment

LIBRARIES = {
    VISION: {"torch": "torchvision", "paddle": "paddle.vision"},
    BERT: {"torch": "transformers", "paddle": "paddlenlp"},
}
PRESETS = {VISION: "resnet18_64", BERT: "base_short"}
SMALL = {VISION: "resnet18_64", BERT: "default"}
_FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


@dataclass(frozen=True)
class Check:
    """What faults share: a step of a model with its options, and so one correct run."""

    model: str
    step: int
    arguments: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="ID", help="this fault alone")
    parser.add_argument("--step", type=int, action="append", help="faults of this step alone")
    parser.add_argument("--small", action="store_true", help="smaller models, fewer checks")
    for side in SIDES:
        parser.add_argument(f"--{side}-python", metavar="PATH", help="as the checks take it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    parser.add_argument("--list", action="store_true", help="plant nothing, say what would be")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    faults = chosen(options)
    idle = [n for n in ("json", "torch_python", "paddle_python") if getattr(options, n)]
    if options.list and idle:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise UserError(f"--list plants nothing: leave out {names}")
    if options.list:
        for fault in faults:
            print(f"step {fault.step}  {fault.id:28} {fault.what}")
        return 0
    pythons = {
        side: find_interpreter(side, getattr(options, f"{side}_python"), environment(), ROOT).path
        for side in SIDES
    }
    for model in sorted({fault.model for fault in faults}):
        lacking = [
            f"{python} has no {LIBRARIES[model][side]}"
            for side, python in pythons.items()
            if not _has(python, LIBRARIES[model][side])
        ]
        if lacking:
            print(f"skipped: all faults of {model}, since {' and '.join(lacking)}", flush=True)
            faults = [fault for fault in faults if fault.model != model]
    if not faults:
        print("nothing was planted: name Pythons that have the libraries", file=sys.stderr)
        return 2
    found = []
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        planter = Planter(Path(name), pythons, SMALL if options.small else PRESETS)
        for check in dict.fromkeys(check_of(fault) for fault in faults):
            found += planter.judge(check, [fault for fault in faults if check_of(fault) == check])
    right = sum(one["origin_right"] for one in found)
    caught = sum(one["caught"] for one in found)
    print(f"{caught} of {len(found)} faults caught, {right} with the right origin")
    if options.json:
        write_text(options.json, json.dumps(found, indent=1, allow_nan=False))
    return 0 if right == len(found) else 1


def chosen(options: argparse.Namespace) -> list[EverydayFault]:
    """The faults that were asked for; raises UserError where there is none."""
    unknown = set(options.only or []) - {fault.id for fault in FAULTS}
    if unknown:
        raise UserError(f"--only {', '.join(sorted(unknown))}: no such fault; --list shows them")
    found = [
        fault
        for fault in FAULTS
        if (not options.only or fault.id in options.only)
        and (not options.step or fault.step in options.step)
        and not (options.small and fault.model == VISION and fault.step == 4)
    ]
    if not found:
        raise UserError("no fault is so named and of these steps; --list shows them")
    return found


def check_of(fault: EverydayFault) -> Check:
    """The check that must find a fault."""
    return Check(fault.model, fault.step, fault.arguments)


def _has(python: str, library: str) -> bool:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", _FIND, library.partition(".")[0]], capture_output=True
    )
    return done.returncode == 0


class Planter:
    """Runs checks on copies of the pairs, in `folder`."""

    def __init__(self, folder: Path, pythons: dict[str, str], presets: dict[str, str]):
        self.folder = folder
        self.pythons = pythons
        self.presets = presets

    def judge(self, check: Check, faults: Sequence[EverydayFault]) -> list[dict]:
        """Run a check as it is, then with each fault; what was found, one dict for each fault."""
        pair = self.folder / "pairs" / Path(check.model).name
        shutil.rmtree(pair, ignore_errors=True)
        shutil.copytree(ROOT / check.model, pair, ignore=shutil.ignore_patterns("__pycache__"))
        path = pair / "paddle_model.py"
        clean = path.read_text()
        path.write_text(clean + PRELUDE)  # a plant that changes nothing
        control, report, seconds = self._run(check, pair)
        named = f"step {check.step} of {pair.name} {' '.join(check.arguments)}".strip()
        if control.returncode != 0:
            said = (control.stderr or control.stdout).strip()[-500:]
            print(f"{named}: the correct run is not green: {said}", flush=True)
        else:
            print(f"{named}: the correct run is green, {seconds:.0f} s", flush=True)
        found = []
        for fault in faults:
            path.write_text(fault.planted(clean))
            done, report, seconds = self._run(check, pair)
            first = report.get("first_diverged")
            caught = control.returncode == 0 and done.returncode == 1
            right = caught and fault.named(first)
            origins = [row["key"] for row in report.get("rows", ()) if row["origin"]]
            found.append(
                {
                    "id": fault.id,
                    "what": fault.what,
                    "model": pair.name,
                    "step": fault.step,
                    "control": control.returncode,
                    "exit_code": done.returncode,
                    "caught": caught,
                    "origin_right": right,
                    "first": first,
                    "origins": origins[:8],
                    "said": "" if done.returncode == 1 else done.stderr.strip()[-500:],
                    "seconds": round(seconds, 1),
                }
            )
            word = "found at its place" if right else "caught elsewhere" if caught else "MISSED"
            told = first or found[-1]["said"] or "every row agrees"
            print(f"  {fault.id}: {word}: {told} ({seconds:.0f} s)", flush=True)
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        return found

    def _run(self, check: Check, pair: Path) -> tuple[subprocess.CompletedProcess, dict, float]:
        """The finished check, its report, and its seconds; torch's logs are kept while they fit."""
        report = self.folder / "rows.json"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-W", "ignore", str(ROOT / CHECKS[check.step])]
        command += ["--model", str(pair), "--preset", self.presets[check.model], *check.arguments]
        command += [f"--{side}-python={python}" for side, python in self.pythons.items()]
        command += ["--reuse", "torch", "--no-report", "--out", str(self.folder / "logs")]
        start = time.perf_counter()
        done = subprocess.run(
            [*command, "--json", str(report)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - start
        return done, json.loads(report.read_text()) if report.is_file() else {}, seconds


if __name__ == "__main__":
    sys.exit(main())
