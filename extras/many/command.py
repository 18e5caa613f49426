"""All five steps of several pairs: a line for each, as it is done.

    twincheck check A B C [--jobs N] [options of `twincheck check`]

A, B and C are folders of pairs, or names of built-in models.  What a folder's check finds is in its
own log/ (of a built-in model in ./log/NAME), with all that it says in check.txt there; with
--out DIR it is in DIR/NAME.

Exit status: the worst of all: 0 aligned, 1 not, 2 could not be compared.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from twincheck.common.check.options import OF_EVERY_CHECK, Parser, of, positive
from twincheck.common.pair.pairs import MODELS, built_in_models, folder_of, load_pair
from twincheck.common.report import terminal
from twincheck.common.system.checkout import PATH
from twincheck.common.system.door import VARIABLE as DOOR
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.program import guarded
from twincheck.extras.many import Kind
from twincheck.extras.shared import jobs

CHECK = ("twincheck", "check")
SAID = "check.txt"  # all that a check has said, beside its logs
NEEDED_BYTES = 3 << 30  # by both sides of a pair of some hundred MB, roughly
# What is told for all of them at once, or would be one file of several.
NOT_TAKEN = ("model", "json", "out", "debug")
_TAKEN = (*OF_EVERY_CHECK, *of("reference"), "mode", *of("data", "training"))


@dataclass(frozen=True)
class Pair:
    """One pair's check."""

    name: str  # as it was given
    model: str  # as a check takes it
    out: Path
    words: tuple[str, ...]  # further options


@dataclass(frozen=True)
class Outcome:
    """What came of one."""

    status: int
    said: str  # the check's last line
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module's docstring."""
    parser = Parser(__doc__, "check")
    parser.add_argument("pairs", nargs="+", metavar="PAIR", help=Kind.OPTION_PAIR())
    parser.add_argument("--jobs", type=positive, metavar="N", help=Kind.OPTION_JOBS())
    parser.take(*(name for name in _TAKEN if name not in NOT_TAKEN))
    parser.take_other("out", metavar="DIR", help=Kind.OPTION_OUT()).take("debug")
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: _check(given))


def _check(given: argparse.Namespace) -> int:
    pairs = _pairs(given)
    count = len(pairs)
    at_a_time = min(given.jobs or usual_jobs(count), count)
    threads = max(1, (os.cpu_count() or 1) // at_a_time)
    outcomes: dict[Pair, Outcome] = {}
    began = time.monotonic()
    with terminal.progress() as on_progress:

        def take(pair: Pair, outcome: Outcome) -> None:
            outcomes[pair] = outcome
            kind = Kind.PAIR_NOT_COMPARED if outcome.status == 2 else Kind.PAIR_SAYS
            terminal.say(kind(pair=pair.name, said=outcome.said, seconds=outcome.seconds))
            on_progress(Kind.PAIRS_DONE(done=len(outcomes), count=count))

        on_progress(Kind.PAIRS_DONE(done=0, count=count))
        jobs.run(partial(check, threads=threads), pairs, at_a_time, take)
    terminal.say(in_all([(pair, outcomes[pair]) for pair in pairs], time.monotonic() - began))
    return max(outcome.status for outcome in outcomes.values())


def usual_jobs(count: int) -> int:
    """Return how many pairs are checked at a time: a core and some memory for each."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(count, os.cpu_count() or 1, free // NEEDED_BYTES))


def _pairs(given: argparse.Namespace) -> list[Pair]:
    """The checks that are asked for; raises UserError where two would write to one place."""
    own = ("jobs", *NOT_TAKEN)
    words = tuple(word for name, typed in given.typed if name not in own for word in typed)
    every = [str(MODELS / name) for name in built_in_models()]
    names = [n for name in given.pairs for n in (every if name == "all" else [name])]
    found: dict[Path, Pair] = {}
    for name in names:
        folder = Path(os.path.abspath(folder_of(name)))
        is_built_in = folder.parent == MODELS
        name = folder.name if is_built_in else name
        if not is_built_in and not folder.is_dir():
            load_pair(name)  # which says what is wrong
        out = Path.cwd() / "log" / name if is_built_in else folder / "log"
        out = given.out.absolute() / folder.name if given.out else out
        if out in found:
            said = {"first": found[out].name, "second": name, "folder": str(out)}
            raise UserError(Kind.OUTPUTS_COINCIDE(**said))
        found[out] = Pair(name, str(folder), out, words)
    return list(found.values())


def check(pair: Pair, threads: int) -> Outcome:
    """Check a pair in a process of its own; threads: of each of its sides."""
    paths = [str(PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), DOOR: to_type()}
    environment.setdefault("OMP_NUM_THREADS", str(threads))
    command = [sys.executable, "-m", *CHECK, "--model", pair.model, "--out", str(pair.out)]
    began = time.monotonic()
    pair.out.mkdir(parents=True, exist_ok=True)
    log = pair.out / SAID
    with open(log, "w", encoding="utf-8") as file:
        status = jobs.program([*command, *pair.words], file, env=environment)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith(("error: ", "错误："))]
    said = [line.strip() for line in errors or lines if line.strip()]
    said = said[-1] if said else Kind.ENDED_SILENTLY(status=status)
    return Outcome(status if status in (0, 1) else 2, said, time.monotonic() - began)


def in_all(found: Sequence[tuple[Pair, Outcome]], seconds: float) -> str:
    """Return the line on all of them, with where to read on."""
    of = {status: [pair for pair, one in found if one.status == status] for status in (0, 1, 2)}
    parts = [Kind.ALIGNED(aligned=len(of[0]), count=len(found))]
    for status, kind in ((1, Kind.NOT_ALIGNED), (2, Kind.NOT_COMPARED)):
        if of[status]:
            logs = [str(pair.out / SAID) for pair in of[status]]
            parts.append(kind(count=len(logs), logs=logs))
    return Kind.IN_ALL(parts=[*parts, Kind.SECONDS(seconds=seconds)])
