"""A side's optimizers stopped and gone on with, in a process of its own: for test_training.

    python tests/optimizer_state.py torch|paddle

Prints JSON: kind -> whether the weights are the same, bit for bit, as without the stop; and whether
they still are where the optimizer's memory was not given back.
"""

import importlib
import json
import sys

import numpy as np

from twincheck.common.pair.schedules import warm_up
from twincheck.common.sides.optimizer import Optimizer

NAMES = ("first.weight", "first.bias", "second")
SHAPES = ((3, 4), (4,), (4, 2))


def steps(side, parameters, optimizer, first, last):
    """Quadratic losses whose gradients are another at every step."""
    for step in range(first, last):
        rng = np.random.default_rng(step)
        for _, value in parameters:
            side.assign_gradient(value, rng.standard_normal(list(value.shape)))
        optimizer.step()


def main(name):
    """See the module's docstring."""
    side = importlib.import_module(f"twincheck.common.sides.backend_{name}").side
    side.set_up("float32", "cpu", 0)
    found = {}
    for kind in ("adam", "adamw", "sgd"):
        more = {"weight_decay": 0.125} if kind == "adamw" else {}

        def made(start, kind=kind, more=more):
            values = [side.watch(side.tensor(array)) for array in start]
            parameters = list(zip(NAMES, values, strict=True))
            return parameters, Optimizer(side, parameters, kind, 0.1, warm_up(4), **more)

        rng = np.random.default_rng(0)
        start = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]
        parameters, optimizer = made(start)
        steps(side, parameters, optimizer, 0, 5)
        held = [side.array(value).copy() for _, value in parameters]
        state = {key: np.array(values) for key, values in optimizer.state().items()}
        steps(side, parameters, optimizer, 5, 9)
        wanted = [side.array(value) for _, value in parameters]
        same = []
        for kept in (state, {"steps": state["steps"]}):
            again, other = made(held)
            other.load_state(kept)
            steps(side, again, other, 5, 9)
            got = [side.array(value) for _, value in again]
            same.append(all(a.tobytes() == b.tobytes() for a, b in zip(wanted, got, strict=True)))
        found[kind] = same
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
