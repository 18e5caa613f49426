"""Portions of what is to be run: how many at a time, by which Python, and in which folder."""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.check.options import positive
from twincheck.extras.shared import jobs


def take_options(parser: argparse.ArgumentParser) -> None:
    """Take the option of every program that runs portions."""
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=positive, metavar="N", default=cores, help="checks at a time, one a core"
    )
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a check has one core; the servers must know


@dataclass(frozen=True)
class Portion:
    """What one check runs, or some, one after the other.

    base     where folders are made; it is removed in the end
    python   what runs the checks
    """

    items: tuple
    base: Path
    python: str

    def folder(self) -> Path:
        """Make a new folder."""
        return Path(tempfile.mkdtemp(dir=self.base))


def run(
    work: Callable[[Portion], object],
    chunks: Iterable[Iterable],
    workers: int,
    python: str,
    on_result: Callable[[Portion, object], None],
) -> None:
    """Run portions of the chunks' items; on_result(portion, what work gives) as each is done."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        portions = [Portion(tuple(chunk), Path(name), python) for chunk in chunks]
        jobs.run(work, portions, workers, on_result)
