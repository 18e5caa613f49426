"""Which Python runs the checks: a warm one of this process, or of each process of a cluster."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from faults.warm import Interpreters
from twincheck.extras.shared.jobs import Place
from twincheck.extras.shared.task import common


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


def shared(python: str | None) -> str:
    """The Python that is given, or where none is, a warm one of this process."""
    return python or common("warm", Interpreters).python
