"""A run's model built without what its weights overwrite; which buffers it makes are constants."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from twincheck.common.logs.computed import CONSTANT
from twincheck.common.sides.upcast import digest_of
from twincheck.common.system.half import HALF, rounded
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
    probed, noted = {name for name, _ in side.probed_modules(model)}, {}
    for name, _, value in _constants(side, model):
        while name and name not in probed:
            name = name.rpartition(".")[0]
        counts = noted.setdefault(run.prefix + session.rename(name), {})
        if value.dtype == side.lib.float64:
            continue
        values = side.array(value)
        kind = next((t for t in HALF if np.array_equal(rounded(values, t), values)), "float32")
        if values.size > 1:
            said = f"{CONSTANT}[{values.size}] {kind}"
            counts[said] = counts.get(said, 0) + 1
    for place, counts in noted.items():
        if counts:
            session.seen.computed[place] = session.seen.computed.get(place, {}) | counts


def _constants(side, model) -> Iterator[tuple[str, str, object]]:
    """Give (module, name, tensor) of buffers in floats, and of what modules keep by themselves."""
    learned = {id(value) for value in model.parameters()}
    for name, module in side.modules(model):
        for at, value in {**vars(module), **dict(module.named_buffers())}.items():
            is_constant = side.is_tensor(value) and "." not in at and id(value) not in learned
            if is_constant and side.is_float(value):
                yield name, at, value


def round_like_reference(run, model) -> None:
    """Round those of a port's tables to float32 that the reference has from NumPy in float32.

    Such a table is float32 in the reference's float64 run too.  The port's is the same one where
    it has the same bits in float32: both runs are given those, and what is left is the port's.
    """
    theirs = run.session.tables if run.dtype == "float64" else ()
    for name, at, value in _constants(run.side, model) if theirs else ():
        values = run.side.array(value)
        narrow, digest = values.astype(np.float32).astype(np.float64), digest_of(values)
        if digest in theirs and not np.array_equal(values, narrow):
            run.side.assign(value, narrow)
            run.session.seen.tables[digest] = f"{name}.{at}".lstrip(".")


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
