"""Tests that take more CPU time than a test may: `make lint` asks it of each test's last run.

    python -m tools.costs            the tests that took more than MOST seconds
    python -m tools.costs --slowest 20
                                     the slowest ones, with their seconds
    python -m tools.costs ROOT       those of another checkout

pytest leaves the seconds in its cache (conftest.py): CPU time of the test, of its fixtures where it
was the first to ask for them, and of the processes that it waited for.  Exit status 1 where a test
took more and is none of MAY.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from twincheck.common.system.program import Parser

ROOT = Path(__file__).resolve().parent.parent
COSTS = "twincheck/cpu_seconds"  # in pytest's cache
MOST = 20
# The start of a test's name -> why it may take more.
MAY = {
    "tests/journeys/": "a person's whole way",
    "tests/test_readme.py::test_make_check": "`make check`, which all tests of the file read",
    "tests/test_processes.py::test_a_process_that_dies": "trainings by several processes, thrice",
    "tests/test_no_word_decides.py": "twenty faults, planted and found",
    "extras/live/tests/test_notebook.py": "the notebook from end to end",
    "extras/mend/tests/": "searches, each of which runs a check for every edit that it proves",
    "extras/trainers/tests/test_why.py": "trainings, which all tests of the file read",
}


def above(seconds: Mapping[str, float]) -> list[str]:
    """Return a line for each test that took more than MOST seconds and is none of MAY."""
    long = {name: took for name, took in seconds.items() if took > MOST}
    return [
        f"{name}: {took:.0f} s of CPU, where a test may take {MOST}: make it shorter, share its "
        "set-up, or say in tools/costs.py why it may"
        for name, took in sorted(long.items(), key=lambda one: -one[1])
        if not name.startswith(tuple(MAY))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, metavar="ROOT")
    parser.add_argument("--slowest", type=int, metavar="N", help="show so many, and find no fault")
    options = parser.parse_args(arguments)
    stored = options.root / ".pytest_cache" / "v" / COSTS
    kept = json.loads(stored.read_text()) if stored.is_file() else {}
    seconds = {n: s for n, s in kept.items() if (options.root / n.partition("::")[0]).is_file()}
    if options.slowest is not None:
        for name, took in sorted(seconds.items(), key=lambda one: -one[1])[: options.slowest]:
            print(f"{took:7.1f} s  {name}")
        return 0
    found = above(seconds)
    print("\n".join(found) if found else f"{len(seconds)} tests of the last runs: none too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
