"""Plant every fault of the catalogue, one after another, and see which step finds it, and where.

    make faults                                the whole catalogue, and the correct hard pairs
    python -m faults.run --only gelu-tanh      one fault (the option may be repeated)

Each worker has a copy of the checkout.  A correct run of the same check comes first: a fault only
counts as caught where that was green, and torch's logs of it serve all its faults.  Exit status 0:
every fault caught, at least 95 % with the right origin, no correct hard pair called wrong.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from faults import hard, portions, show
from faults.catalogue import FAULTS
from faults.fault import Fault
from faults.portions import Portion
from faults.users import run as users
from faults.warm import Interpreters
from faults.worker import Check, Workers
from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.program import Parser, guarded

ORIGINS_WANTED = 0.95
# Faults of one check that a worker takes at a time: each worker makes a correct run of its own.
CHUNK = {1: 12, 2: 12, 3: 12, 4: 10, 5: 12}
# Of a fault in a step, roughly: the long ones start first, or one worker would wait for the other
# at the end.
COST = {1: 1, 2: 3, 3: 1, 4: 3, 5: 4}


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--only", action="append", metavar="ID", help="this fault alone")
    parser.add_argument("--model", action="append", help="faults of this model alone")
    parser.add_argument("--step", type=int, action="append", help="faults of this step alone")
    portions.take_options(parser)
    parser.add_argument("--json", type=Path, default=ROOT / "log" / "faults.json", metavar="FILE")
    parser.add_argument("--no-hard", action="store_true", help="without the correct hard pairs")
    parser.add_argument("--cold", action="store_true", help="without warm interpreters: slower")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    partial = bool(options.only or options.model or options.step)
    if options.no_hard and partial:
        raise UserError("--no-hard: with --only, --model or --step no hard pair runs: leave it out")
    faults = chosen(options)
    start = time.perf_counter()
    with report.progress() as on_progress, Interpreters(options.cold) as warm:
        found = plant(faults, options.workers, on_progress, warm.python)
        pairs = []
        if not (options.no_hard or partial):
            pairs = hard.run(options.workers, on_progress, python=warm.python)
            pairs += users.run(options.workers, on_progress, python=warm.python)
    found |= {"hard": pairs, "seconds": round(time.perf_counter() - start, 1)}
    found["cpu_seconds"] = round(sum(os.times()[:4]), 1)
    write_text(options.json, json.dumps(found, indent=1, allow_nan=False))
    show.on_terminal(found)
    return 0 if passed(found) else 1


def chosen(options: argparse.Namespace) -> list[Fault]:
    """The faults that were asked for; raises UserError where there is none."""
    unknown = set(options.only or []) - {fault.id for fault in FAULTS}
    if unknown:
        raise UserError(
            f"--only {', '.join(sorted(unknown))}: no such fault; "
            "`python -m faults.catalogue` lists them"
        )
    for name, given, known in (
        ("--model", options.model, {fault.name for fault in FAULTS}),
        ("--step", options.step, {fault.step for fault in FAULTS}),
    ):
        for value in set(given or []) - known:
            raise UserError(
                f"{name} {value}: no fault is of it; there are {', '.join(map(str, sorted(known)))}"
            )
    faults = [
        fault
        for fault in FAULTS
        if (not options.only or fault.id in options.only)
        and (not options.model or fault.name in options.model)
        and (not options.step or fault.step in options.step)
    ]
    if not faults:
        raise UserError("no fault is for these steps and models")
    return faults


def plant(
    faults: Sequence[Fault],
    workers: int,
    on_progress: Callable[[str], None],
    python: str,
) -> dict:
    """Judge faults in parallel; {"faults": in the catalogue's order, "controls": …}.

    workers   how many at a time
    python    what runs the checks
    """
    results: dict[str, dict] = {}
    controls: dict[Check, dict] = {}

    def take(portion: Portion, found: tuple[list[dict], dict]) -> None:
        for fault, result in zip(portion.items, found[0], strict=True):
            results[fault.id] = result
            on_progress(f"{len(results)} of {len(faults)}: {fault.id}")
        controls[Check.of(portion.items[0])] = found[1]

    with Workers() as idle:
        portions.run(idle.judge, _chunks(faults), workers, python, take)
    return {
        "faults": [results[fault.id] for fault in faults],
        "controls": list(controls.values()),
    }


def _chunks(faults: Sequence[Fault]) -> list[list[Fault]]:
    """The faults of one check together, in portions; the costly ones first."""
    groups: dict[Check, list[Fault]] = {}
    for fault in faults:
        groups.setdefault(Check.of(fault), []).append(fault)
    chunks = [
        group[i : i + CHUNK[check.step]]
        for check, group in groups.items()
        for i in range(0, len(group), CHUNK[check.step])
    ]
    return sorted(chunks, key=_cost, reverse=True)


def _cost(chunk: Sequence[Fault]) -> int:
    """Roughly what faults of one check take, its correct run included."""
    return (1 + len(chunk)) * COST[chunk[0].step]


def passed(found: dict) -> bool:
    """Whether the catalogue is found as it must be."""
    faults = found["faults"]
    caught = sum(fault["caught"] for fault in faults)
    right = sum(fault["origin_right"] for fault in faults)
    alarms = [pair for pair in found["hard"] if pair["exit_code"] != 0]
    return caught == len(faults) and right >= ORIGINS_WANTED * len(faults) and not alarms


if __name__ == "__main__":
    sys.exit(main())
