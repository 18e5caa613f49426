"""Initial weights as both sides' frameworks draw them, for steps 1 and 5; in a worker, NumPy only.

common/verdict/initial.py says whether they come from the same distributions.
"""

import inspect
from contextlib import nullcontext, suppress

import numpy as np

from twincheck.common.logs.sidecar import OWN
from twincheck.common.pair.pairs import is_checkpoint
from twincheck.common.sides.places import (
    makers,
    noting_makers,
    of_framework_file,
)
from twincheck.common.sides.run import stored
from twincheck.common.sides.session import Session, using
from twincheck.common.system.checkout import ROOT, short_place
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.half import HALF

# Draws of the whole model on each side: so many that a layer of a hundred weights shows a uniform
# distribution in a normal one's place, and of a large model, whose layers have values enough, few.
MOST, LEAST, DRAWN = 32, 2, 8_000_000
FIRST_SEED = 1000  # none of them is the seed of the run itself
MAX_VALUES = 100_000  # of a parameter, over all seeds: enough to see a spread that is 5 % off
MAX_LOG = 4_000_000  # of all parameters: a log has 16 MB at most


def log_initial(run, stem: str) -> None:
    """Draw the first case's initial weights beside what step 1 runs, where that means anything.

    Not where the weights are a checkpoint's, where a part alone is run, or where the candidate is
    another backend: the initial values are not that run's question.
    """
    request = run.request
    session = run.session
    plain = run.dtype == "float32" and session.reference is None and session.moved is None
    part = run.again or request.cases or request.probes or request.no_probe
    other = request.backends != SIDES or request.dtype in HALF
    first = (run.case.name or "main") == (run.job.first_case or "main")
    if (
        not (plain and session.wants_probes)
        or part
        or other
        or not first
        or is_checkpoint(request.weights)
    ):
        return
    run.extra[stem] = initial_weights(run)


def initial_weights(run) -> dict[str, np.ndarray]:
    """Return what `judge_initial` needs of every parameter, by the reference's names and layout.

    NAME:values    (seeds, up to MAX_VALUES / seeds), the same elements on both sides
    NAME:constant  (rows,), 1 where all of a row's elements are the same under every seed; the
                   elements of a vector are its rows
    NAME:columns   (columns,), the same of the last axis
    NAME:rows      (rows,), the mean of each row's first draw
    NAME:shape     (axes,)

    The sidecar says which layers hold them, and which lines build these.
    """
    drawn: dict[str, dict] = {}
    sizes = [values.size for values in run.start().values()] or [1]
    seeds = min(MOST, max(LEAST, DRAWN // sum(sizes)))
    count = min(MAX_VALUES, MAX_LOG // len(sizes)) // seeds
    for k in range(seeds):
        run.side.set_up(stored(run.dtype, run.request), run.request.device, FIRST_SEED + k)
        # The first alone says who made what: asking each time takes a third of the building.
        noting = nullcontext() if k else noting_makers(run.side.MODULE)
        with using(Session(FIRST_SEED + k)), noting:
            model = run.module.build(dict(run.case.config))
        if k == 0:
            run.notes["owners"] = _owners(run, model)
        weights = ((name, run.side.array(value)) for name, value in run.parameters(model))
        for name, values in run.as_reference(weights):
            if k == 0:
                drawn[name] = _first(run, name, values, count)
            kept = drawn[name]
            kept["values"].append(values.reshape(-1)[kept["chosen"]])
            kept["same"] &= values == kept["first"]
        if k and all(kept["same"].all() for kept in drawn.values()):
            break  # it is built with given weights: a checkpoint's, or a live model's
    run.side.set_up(stored(run.dtype, run.request), run.request.device, run.request.seed)
    log = {}
    for name, kept in drawn.items():
        first = kept["first"]
        rows = first.reshape([first.shape[0] if first.ndim else 1, -1]).astype(np.float64)
        log[f"{name}:values"] = np.stack(kept["values"])
        log[f"{name}:constant"] = kept["same"].reshape(rows.shape).all(axis=1).astype(np.int64)
        columns = kept["same"].reshape([-1, *first.shape[-1:]])
        log[f"{name}:columns"] = np.atleast_1d(columns.all(axis=0)).astype(np.int64)
        log[f"{name}:rows"] = rows.mean(axis=1)
        log[f"{name}:shape"] = np.array(first.shape, np.int64)
    return log


def _first(run, name: str, values: np.ndarray, count: int) -> dict:
    """Begin the record of a parameter with its first draw; `count` values are taken of each."""
    chosen = np.arange(values.size)
    if values.size > count:
        chosen = run.session.tape.generator(f"init/{name}").integers(0, values.size, count)
    same = np.ones(values.shape, bool)
    return {"chosen": chosen, "values": [], "first": values.copy(), "same": same}


def _owners(run, model) -> dict[str, list[str]]:
    """A parameter's own name -> its layer's class, its name in there, the line that builds the
    layer, and the reference's names of what it holds; the root's class and file under no name,
    unless they are the framework's."""
    modules, entries = dict(run.side.modules(model)), getattr(run.layout, "entries", {})
    found = {}
    for key, owner in run.side.owners(model).items():
        if owner.parameter and owner.same_as == key:
            module = modules.get(key[: -len(owner.local) - 1], model)
            torch_keys = entries[key].torch_keys if key in entries else (key,)
            of = owner.kind or f"{OWN} {owner.own}"
            line = next((place for place, _ in makers(module)), "")
            found[key] = [of, owner.local, short_place(line, str(ROOT)), *torch_keys]
    kind, file = type(model), ""
    with suppress(TypeError):  # a class that a program has made has none
        file = inspect.getsourcefile(kind) or ""
    return found | {"": [kind.__name__, "", "" if of_framework_file(file) else file]}
