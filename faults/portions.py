"""Portions of what is to be run: where they run, by which Python, and in which folder."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.warm import Interpreters
from twincheck.common.check.options import positive
from twincheck.extras.shared import jobs, task
from twincheck.extras.shared.jobs import Place


def take_options(parser: argparse.ArgumentParser) -> None:
    """The options of every program that runs portions."""
    parser.add_argument("--workers", type=positive, metavar="N", help="processes, one a core")
    jobs.add_options(parser)


def place_of(options: argparse.Namespace) -> Place:
    """Where they say that portions run."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process has one core; the servers must know
    return jobs.place_of(options, options.workers, os.cpu_count() or 1, "--workers")


@contextmanager
def interpreter(place: Place, cold: bool = False) -> Iterator[str | None]:
    """The Python for what is run at a place: a warm one, unless `cold`.

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

    base    where processes of this machine have their folders
    given   what runs the checks; None: a warm Python of the process itself
    """

    items: tuple
    base: Path
    given: str | None

    @property
    def python(self) -> str:
        """What runs the checks, in the process that asks."""
        return self.given or task.common("warm", Interpreters).python

    def folder(self) -> Path:
        """A new folder; those of this machine are removed in the end."""
        return Path(tempfile.mkdtemp(dir=self.base if self.base.is_dir() else None))


def run(
    work: Callable[[Portion], object],
    chunks: Iterable[Iterable],
    place: Place,
    python: str | None,
    on_result: Callable[[Portion, object], None],
) -> None:
    """Run portions of the chunks' items; on_result(portion, what work gives) as each is done."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        portions = [Portion(tuple(chunk), Path(name), python) for chunk in chunks]
        jobs.run(work, portions, place, on_result)
