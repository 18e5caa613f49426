"""Initial weights as both sides' frameworks draw them, for step 5; in a worker, NumPy only.

step5_train/judge_initial.py says whether they come from the same distributions.
"""

import numpy as np

from twincheck.common.sides.run import stored
from twincheck.common.sides.session import Session, using

SEEDS = 8  # draws of the whole model on each side
FIRST_SEED = 1000  # none of them is the seed of the run itself
MAX_VALUES = 100_000  # of a parameter, over all seeds: enough to see a spread that is 5 % off


def initial_weights(run) -> dict[str, np.ndarray]:
    """What `judge_initial` needs of every parameter, under the reference's names and layout.

    NAME:values    (SEEDS, up to MAX_VALUES / SEEDS), the same elements on both sides
    NAME:constant  (rows,), 1 where all of a row's elements are the same under every seed; the
                   elements of a vector are its rows
    NAME:columns   (columns,), the same of the last axis
    NAME:rows      (rows,), the mean of each row's first draw
    """
    drawn: dict[str, dict] = {}
    for k in range(SEEDS):
        run.side.set_up(stored(run.dtype, run.request), run.request.device, FIRST_SEED + k)
        with using(Session(FIRST_SEED + k)):
            model = run.module.build(dict(run.case.config))
        weights = ((name, run.side.array(value)) for name, value in run.parameters(model))
        for name, values in run.as_reference(weights):
            if k == 0:
                drawn[name] = _first(run, name, values)
            kept = drawn[name]
            kept["values"].append(values.reshape(-1)[kept["chosen"]])
            kept["same"] &= values == kept["first"]
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
    return log


def _first(run, name: str, values: np.ndarray) -> dict:
    """What is recorded of a parameter, begun with its first draw."""
    count = MAX_VALUES // SEEDS
    chosen = np.arange(values.size)
    if values.size > count:
        chosen = run.session.tape.generator(f"init/{name}").integers(0, values.size, count)
    same = np.ones(values.shape, bool)
    return {"chosen": chosen, "values": [], "first": values.copy(), "same": same}
