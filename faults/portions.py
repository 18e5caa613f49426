"""Portions of what is to be run: where they run, by which Python, and in which folder."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from faults.warm import Interpreters
from twincheck.common.check.options import positive
from twincheck.extras.shared import jobs, task
from twincheck.extras.shared.jobs import Place


def take_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where portions run."""
    parser.add_argument("--workers", type=positive, metavar="N", help="processes, one a core")
    parser.add_argument("--cold", action="store_true", help="without warm interpreters: slower")
    jobs.add_options(parser)


def place_of(options: argparse.Namespace) -> Place:
    """Return where the options say that portions run."""
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")  # the servers must know
    cores = max(1, (os.cpu_count() or 1) // int(threads))
    return jobs.place_of(options, options.workers, cores, "--workers")


@contextmanager
def interpreter(place: Place, cold: bool = False) -> Iterator[str | None]:
    """Give the Python for what is run at a place: a warm one, unless `cold`.

    None for a cluster, of whose processes each has warm ones of its own.
    """
    if place.scheduler:
        yield sys.executable if cold else None
        return
    with Interpreters(cold) as warm:
        yield warm.python


@dataclass(frozen=True)
class Portion:
    """What one process runs before it asks for more.

    work    the function that runs it: portion -> a result for each of the items
    cost    roughly: the long ones start first, or one process would wait for another at the end
    base    where processes of this machine have their folders
    given   what runs the checks; None: a warm Python of the process itself
    """

    work: Callable[["Portion"], list]
    items: tuple
    cost: int
    base: Path = Path()
    given: str | None = None

    @property
    def python(self) -> str:
        """What runs the checks, in the process that asks."""
        return self.given or task.common("warm", Interpreters).python

    def folder(self) -> Path:
        """Make a new folder; those of this machine are removed in the end."""
        return Path(tempfile.mkdtemp(dir=self.base if self.base.is_dir() else None))


def portions_of(work: Callable, items: Sequence, key: Callable, most: int, cost: int) -> list:
    """Return portions of items that have one key, each of at most `most`."""
    groups: dict[object, list] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    chunks = (g[i : i + most] for g in groups.values() for i in range(0, len(g), most))
    return [Portion(work, tuple(chunk), cost * (1 + len(chunk))) for chunk in chunks]


def run(
    portions: Sequence[Portion],
    place: Place,
    python: str | None,
    on_result: Callable[[Portion, list], None],
) -> None:
    """Run portions; on_result(portion, what its work gives) as each is done."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = [replace(portion, base=Path(name), given=python) for portion in portions]
        made.sort(key=lambda portion: -portion.cost)
        jobs.run(lambda portion: portion.work(portion), made, place, on_result)
