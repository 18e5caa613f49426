"""What a model's constructor draws that no seed decides, so that each run has another model.

Python's generators ask the system for bytes where they are given no seed: random.Random(), secrets,
numpy.random.default_rng().  Any other source shows in what two builds under one seed have unlike.
"""

import os
import random
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from twincheck.common.logs.key import parent_of
from twincheck.common.sides.building import BLANK_FROM
from twincheck.common.sides.places import is_instrument, makers, short_place
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.intercept import Intercept

_NAMES = (uuid.__file__, tempfile.__file__)  # what they draw is a name
_PYTHON = os.path.dirname(os.__file__) + os.sep


@contextmanager
def noting_draws(lines: list[tuple[str, bool]]) -> Iterator[None]:
    """Inside, note each draw of the system's bytes: the model's line, and whether for a name."""

    def drawn(own, arguments, options):
        lines.append(_line_that_draws())
        return own(*arguments, **options)

    def seeded(own, arguments, options):
        if all(value is None for value in (*arguments[1:], *options.values())):
            lines.append(_line_that_draws())
        return own(*arguments, **options)

    handles = {"_urandom": drawn, "Random.seed": seeded}
    with Intercept(os, {"urandom": drawn}), Intercept(random, handles):
        yield


def _line_that_draws() -> tuple[str, bool]:
    frame, names = sys._getframe(2), False
    while frame is not None:
        file = frame.f_code.co_filename
        of_python = file.startswith(_PYTHON) and "-packages" not in file
        if not (of_python or is_instrument(file)):
            return f"{file}:{frame.f_lineno}", names
        names |= file in _NAMES
        frame = frame.f_back
    return "", names


def find_unseeded(run) -> dict[str, str]:
    """The line that draws what no seed decides, or the value that differs; nothing of most models.

    A small model is built twice under one seed; of a large one only its draws are known.
    """
    builds = []
    if run.job.values(run.case) <= BLANK_FROM:
        with suppress(Exception):  # a constructor may bear one call alone
            for _ in range(2):
                with run.side.seeded(run.request.seed):
                    builds.append(run.construct())
    found = _unlike(run.side, *builds) if len(builds) == 2 else {}
    lines = [line for line, is_name in run.unseeded_draws if line and (found or not is_name)]
    if lines:
        found = {"place": lines[0]}
    return found and {**found, "place": short_place(found["place"], str(ROOT))}


def _unlike(side, one, other) -> dict[str, str]:
    """The first weight or buffer that differs, and the line of the layer that holds it."""
    ours, theirs = ({**side.state(m), **dict(side.unlearned(m))} for m in (one, other))
    modules = dict(side.modules(one))
    for name, values in ours.items():
        if name in theirs and not np.array_equal(values, theirs[name], equal_nan=True):
            lines = makers(modules.get(parent_of(name), one))
            return {"value": name, "place": lines[0][0] if lines else ""}
    return {}
