"""A run's model built without what its weights overwrite; which buffers it makes are constants."""

import os
import random
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np

from twincheck.common.logs.computed import CONSTANT
from twincheck.common.logs.key import parent_of
from twincheck.common.sides.places import is_instrument, makers, short_place
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.half import HALF, rounded
from twincheck.common.system.intercept import Intercept
from twincheck.common.weights import states as weights

_ANOTHER_SEED = 1009  # added to the run's own
BLANK_FROM = 1 << 20  # values; a smaller model is built in no time


def of_blank(run, use: Callable):
    """Build the case's model without the values that its weights overwrite, and `use` it.

    None where it is too small to be worth it, and where a constructor uses what it draws: such a
    model is built as its file says, from now on.
    """
    if run.case.config in run.job.drawn:
        return None
    if sum(v.size for v in run.start().values()) <= BLANK_FROM:
        return None
    found, before = None, run.side.generator_state()
    blanks = run.side.blanks()
    try:
        with blanks:
            model = run.construct()
        if not blanks.in_constants(model):
            found = use(model, blanks)
    except Exception:  # of the model's own, or of weights that do not fit: it comes again
        pass
    finally:
        run.side.set_generator_state(before)
    if found is None:
        run.job.drawn.append(run.case.config)
    return found


def leave_constants(run, made: Mapping[str, np.ndarray]) -> None:
    """Leave what float32 rounds of the reference's constants, for both sides' float64 runs.

    Weights are stored in float32.  A buffer that nothing but the model's own code has made is
    in a float64 run what that code makes there: a port may compute it instead of carrying it.
    """
    if run.dtype != "float64" or run.case.start not in run.job.as_built:
        return
    names, start = run.job.as_built[run.case.start], run.start()
    found = {n: made[n] for n in names if n in made and not np.array_equal(made[n], start[n])}
    found = alike(run, found) if found else {}
    if found:
        owners = weights.load_owners(run.stored_weights).items()
        path = run.job.files.constants(run.case.start)
        path.parent.mkdir(exist_ok=True)
        all_names = {key: found[o.same_as] for key, o in owners if o.same_as in found}
        weights.save_state(path, all_names)
    del run.job.as_built[run.case.start]  # the next model of it is built as this one


def note_constants(run, model) -> None:
    """Note for a run in half precision which type holds each constant: what was rounded is narrow.

    A buffer, or a tensor that a module keeps by itself; one of one value says nothing.
    """
    if run.dtype not in HALF:
        return
    side, session = run.side, run.session
    learned = {id(value) for value in model.parameters()}
    probed, noted = {name for name, _ in side.probed_modules(model)}, {}
    for name, module in side.modules(model):
        held = {**vars(module), **dict(module.named_buffers())}
        while name and name not in probed:
            name = name.rpartition(".")[0]
        counts = noted.setdefault(run.prefix + session.rename(name), {})
        for at, value in held.items():
            constant = side.is_tensor(value) and "." not in at and id(value) not in learned
            if not constant or value.dtype == side.lib.float64 or not side.is_float(value):
                continue
            values = side.array(value)
            kind = next((t for t in HALF if np.array_equal(rounded(values, t), values)), "float32")
            if values.size > 1:
                said = f"{CONSTANT}[{values.size}] {kind}"
                counts[said] = counts.get(said, 0) + 1
    for place, counts in noted.items():
        if counts:
            session.seen.computed[place] = session.seen.computed.get(place, {}) | counts


def alike(run, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return those arrays of what a model was built with that another seed builds alike."""
    unlearned = run.side.unlearned
    with run.side.seeded(run.request.seed + _ANOTHER_SEED):
        other = of_blank(run, lambda m, blanks: None if blanks.read else dict(unlearned(m)))
        other = dict(unlearned(run.construct())) if other is None else other
    return {
        name: values
        for name, values in found.items()
        if name in other and np.array_equal(values, other[name], equal_nan=True)
    }


# ---- what a constructor draws that no seed decides -----------------------------------------------


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
