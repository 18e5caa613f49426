"""Plant every fault of the catalogue, one after another, and see which step finds it, and where.

    make faults                                the whole catalogue, and the correct hard pairs
    python -m faults.run --only gelu-tanh      one fault (the option may be repeated)
    python -m faults.run --model llama_like    what is planted in one pair, and its correct checks
    python -m faults.run --few                 what may depend on the processor: the first fault of
                                               each check that reads floats, and faults/pairs
    python -m faults.run --list                what would run

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

from faults import correct, portions, show
from faults.catalogue import FAULTS
from faults.correct import CORRECT, Correct
from faults.fault import USERS, Fault
from faults.portions import Portion, portions_of
from faults.warm import Interpreters
from faults.worker import Check, Workers
from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.program import Parser, guarded

ORIGINS_WANTED = 0.95
COST = {1: 1, 2: 3, 3: 1, 4: 3, 5: 4}  # of a fault, or of a user's pair, in a step
A_FOLDER = 20  # of all cases of one of faults/pairs, times that
MOST = 12  # faults of one check that a worker takes: each worker makes a correct run of its own
MOST_PAIRS = 6  # of users that share a check


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--only", action="append", metavar="ID", help="this fault alone")
    parser.add_argument("--model", action="append", help="what is of this model alone")
    parser.add_argument("--step", type=int, action="append", help="what is of this step alone")
    parser.add_argument("--few", action="store_true", help="what may depend on the processor")
    parser.add_argument("--hard", action="store_true", help="the correct hard pairs alone")
    parser.add_argument("--no-hard", action="store_true", help="without the correct hard pairs")
    parser.add_argument("--list", action="store_true", help="run nothing, say what would run")
    portions.take_options(parser)
    parser.add_argument("--json", type=Path, default=ROOT / "log" / "faults.json", metavar="FILE")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    faults, pairs = chosen(options)
    if options.list:
        for fault in faults:
            print(f"step {fault.step}  {fault.name:<17} {fault.id:<30} {fault.what}")
        for one in pairs:
            print(f"step {one.step}  correct           {one.name}")
        return 0
    start = time.perf_counter()
    with report.progress() as on_progress, Interpreters(options.cold) as warm:
        found = judge(faults, pairs, options.workers, on_progress, warm.python)
    found["seconds"] = round(time.perf_counter() - start, 1)
    found["cpu_seconds"] = round(sum(os.times()[:4]), 1)
    write_text(options.json, json.dumps(found, indent=1, allow_nan=False))
    show.on_terminal(found)
    return 0 if passed(found) else 1


def chosen(options: argparse.Namespace) -> tuple[list[Fault], list[Correct]]:
    """Return the faults and the correct pairs that were asked for.

    Raises UserError for a fault, model or step that is not there, and where nothing is left.
    """
    every = (*FAULTS, *CORRECT)
    known = {
        "--only": {fault.id for fault in FAULTS},
        "--model": {Path(one.model).name for one in every},
        "--step": {one.step for one in every},
    }
    for name, there in known.items():
        for value in set(getattr(options, name.removeprefix("--")) or []) - there:
            raise UserError(f"{name} {value}: there is none; `python -m faults.run --list`")

    def wanted(one: Fault | Correct) -> bool:
        of_model = not options.model or Path(one.model).name in options.model
        return of_model and (not options.step or one.step in options.step)

    faults = [one for one in FAULTS if not options.only or one.id in options.only]
    pairs = [one for one in CORRECT if wanted(one) and not (options.only or options.no_hard)]
    faults = [one for one in faults if wanted(one) and not options.hard]
    if options.few:
        faults, pairs = few(faults), [one for one in pairs if not one.of_users]
    if not faults and not pairs:
        raise UserError("nothing is for these steps, models and faults")
    return faults, pairs


def few(faults: Sequence[Fault]) -> list[Fault]:
    """Return the first fault of each check whose verdict is read from floats.

    What is refused by a hash or a sentence, what changes logs or texts, and training (judged by
    statistics) do not depend on the processor.  Users' pairs have a check for nearly every fault.
    """
    first: dict[Check, Fault] = {}
    for fault in faults:
        of_floats = fault.step in (1, 3, 4) and not fault.refused and fault.after is None
        if of_floats and not fault.model.startswith(USERS):
            first.setdefault(Check.of(fault), fault)
    return list(first.values())


def judge(
    faults: Sequence[Fault],
    pairs: Sequence[Correct],
    workers: int,
    on_progress: Callable[[str], None],
    python: str,
) -> dict:
    """Plant faults and check correct pairs, in parallel.

    workers   how many at a time
    python    what runs the checks

    Returns {"faults": in the order given, "controls": the correct runs of their checks, "hard": a
    dict for each case of the pairs}.
    """
    results: dict[Fault | Correct, dict] = {}
    controls: dict[Check, dict] = {}

    def take(portion: Portion, found: list) -> None:
        for one, result in zip(portion.items, found, strict=True):
            if isinstance(one, Fault):
                result, controls[Check.of(one)] = result
            results[one] = result
        last = portion.items[-1]
        told = last.id if isinstance(last, Fault) else last.name
        on_progress(f"{len(results)} of {len(faults) + len(pairs)}: {told}")

    with Workers() as idle:
        made = []
        for step, cost in COST.items():
            of_step = [one for one in faults if one.step == step]
            made += portions_of(idle.judge, of_step, Check.of, MOST, cost)
            for most, of_users in ((1, False), (MOST_PAIRS, True)):
                some = [one for one in pairs if one.step == step and one.of_users == of_users]
                of_one = cost if of_users else cost * A_FOLDER
                work = correct.judge_portion
                made += portions_of(work, some, lambda one: one.options, most, of_one)
        portions.run(made, workers, python, take)
    return {
        "faults": [results[fault] for fault in faults],
        "controls": list(controls.values()),
        "hard": [case for one in pairs for case in results[one]],
    }


def passed(found: dict) -> bool:
    """Return whether all is found as it must be."""
    faults = found["faults"]
    caught = sum(fault["caught"] for fault in faults)
    right = sum(fault["origin_right"] for fault in faults)
    alarms = [pair for pair in found["hard"] if pair["exit_code"] != 0]
    return caught == len(faults) and right >= ORIGINS_WANTED * len(faults) and not alarms


if __name__ == "__main__":
    sys.exit(main())
