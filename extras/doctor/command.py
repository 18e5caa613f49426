"""Which frameworks and Pythons are here, what was tried, and what to do: ten lines.

    twincheck doctor [--json]

Of each side: the framework of this Python, or of another one, which --torch-python and
--paddle-python name.  No framework is imported into this process: each is asked in one of its own,
so that one that crashes or never ends is told in a sentence.

Exit status: 0 both frameworks work, 1 one does not (what to install is said).
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import Parser, guarded
from twincheck.common.system.start import installed
from twincheck.extras.doctor import Kind
from twincheck.extras.doctor.frameworks import Framework, examine
from twincheck.extras.doctor.machine import Machine, look
from twincheck.extras.doctor.pythons import Python, other_pythons
from twincheck.extras.doctor.sentences import next_command, sentences, what_to_install
from twincheck.extras.doctor.tried import order

SCHEMA = 1  # of --json; a later one may have more, and another number where a meaning changes
_TRIES = 3  # Pythons that are asked for a framework that works


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "doctor")
    parser.add_argument("--json", action="store_true", help=Kind.OPTION_JSON())
    options = parser.parse_args(arguments)
    return guarded(False, lambda: _examine(options.json))


def _examine(as_json: bool) -> int:
    others = other_pythons()
    with ThreadPoolExecutor(len(SIDES)) as threads:
        found = dict(zip(SIDES, threads.map(lambda side: find(side, others), SIDES), strict=True))
    machine = look()
    if as_json:
        lines = [json.dumps(_document(found, others, machine), indent=2)]
    else:
        lines = sentences(found, others, machine)
    print("\n".join(lines), flush=True)
    return 0 if all(each.works for each in found.values()) else 1


def find(side: str, others: Sequence[Python]) -> Framework:
    """The framework of this Python, or the first that works of another; else what is wrong."""
    paths = [sys.executable] if installed(side) else []
    fit = [python for python in others if python.can_run(side)]
    # Those of the working folder first, then the newest framework.
    fit.sort(key=lambda python: order(python.has[side]), reverse=True)
    fit.sort(key=lambda python: not Path(python.path).is_relative_to(Path.cwd()))
    paths += [python.path for python in fit]
    asked = []
    for path in paths[:_TRIES]:
        asked.append(examine(side, path))
        if asked[-1].works:
            return asked[-1]
    return asked[0] if asked else Framework(side, "", problem=Kind.NO_PYTHON_HAS_IT())


def _document(found: dict[str, Framework], others: Sequence[Python], machine: Machine) -> dict:
    """What --json prints."""
    return {
        "schema": SCHEMA,
        "usable": all(each.works for each in found.values()),
        "python": sys.executable,
        "sides": {
            side: {**dataclasses.asdict(each), "install": what_to_install(each, others)}
            for side, each in found.items()
        },
        "others": [dataclasses.asdict(python) for python in others],
        "machine": dataclasses.asdict(machine),
        "next": next_command(found),
    }
