"""Portions of what is to be run: how many at a time, by which Python, and in which folder."""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twincheck.common.check.options import positive
from twincheck.extras.shared import jobs


def take_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how portions run."""
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=positive, metavar="N", default=cores, help="checks at a time, one a core"
    )
    parser.add_argument("--cold", action="store_true", help="without warm interpreters: slower")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a check has one core; the servers must know


@dataclass(frozen=True)
class Portion:
    """What one check runs, or some, one after the other.

    work     the function that runs it: portion -> a result for each of the items
    cost     roughly: the long ones start first, or one worker would wait for another at the end
    base     where folders are made; it is removed in the end
    python   what runs the checks
    """

    work: Callable[["Portion"], list]
    items: tuple
    cost: int
    base: Path = Path()
    python: str = ""

    def folder(self) -> Path:
        """Make a new folder."""
        return Path(tempfile.mkdtemp(dir=self.base))


def portions_of(work: Callable, items: Sequence, key: Callable, most: int, cost: int) -> list:
    """Return portions of items that have one key, each of at most `most`."""
    groups: dict[object, list] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    chunks = (g[i : i + most] for g in groups.values() for i in range(0, len(g), most))
    return [Portion(work, tuple(chunk), cost * (1 + len(chunk))) for chunk in chunks]


def run(
    portions: Sequence[Portion],
    workers: int,
    python: str,
    on_result: Callable[[Portion, list], None],
) -> None:
    """Run portions; on_result(portion, what its work gives) as each is done."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = [replace(portion, base=Path(name), python=python) for portion in portions]
        made.sort(key=lambda portion: -portion.cost)
        jobs.run(lambda portion: portion.work(portion), made, workers, on_result)
