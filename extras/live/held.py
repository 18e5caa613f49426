"""The models that twincheck.check was given, as the files of a pair have them, in a fork.

The pair's folder holds two files of some lines (calls.py), whose `build` and `loss` are made here.
"""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from twincheck.extras.live.copies import copied, set_precision
from twincheck.extras.live.lines import note_lines

LIVE: dict[str, "Held"] = {}  # side -> what it was given; set before the caller forks
CELLS: dict[str, str] = {}  # file that a notebook's cell says it comes from -> its copy


@dataclasses.dataclass
class Held:
    """One side's model and loss, and how the model is called.

    inputs       names of all inputs
    positional   of these, what it takes by position, in their order
    options      further arguments that are no arrays, by name
    """

    model: object
    loss: Callable | None
    inputs: tuple[str, ...]
    positional: tuple[str, ...]
    options: Mapping[str, object]


def build(side: str, file: str) -> object:
    """A copy of the model in the precision that is asked for: the framework's default.

    file   of the pair's that asks; the weights that the caller's model has are left beside it
    """
    held, framework = LIVE[side], importlib.import_module(side)
    if not state_file(Path(file).parent, side).exists():
        own = importlib.import_module(f"twincheck.common.sides.backend_{side}").side
        np.savez(state_file(Path(file).parent, side), **own.state(held.model))
    model = copied(held.model, framework)
    set_precision(model, framework, str(framework.get_default_dtype()).rpartition(".")[2])
    note_lines(model)
    vars(model)["forward"] = _forward(model.forward, held)  # past a __setattr__ of the model's own
    return model


def state_file(folder: Path, side: str) -> Path:
    """Return the file of a side's weights, as the caller's model has them."""
    return folder / f"state_{side}.npz"


def _forward(inner: Callable, held: Held) -> Callable:
    """`forward` that takes every input by its name."""
    parameters = inspect.signature(inner).parameters.values()
    own = {p.name for p in parameters}
    takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters)
    taken = [n for n in held.inputs if n in held.positional or n in own or takes_any]

    @functools.wraps(inner)
    def forward(**given):
        first = [given.pop(name) for name in held.positional]
        return inner(*first, **given, **held.options)

    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in taken]
    )
    return forward


def loss(side: str, outputs: object, inputs: Mapping[str, object]) -> object:
    """The side's loss of these outputs, and of the inputs where it takes them."""
    function = LIVE[side].loss
    try:
        inspect.signature(function).bind(outputs, inputs)
    except TypeError:
        return function(outputs)
    return function(outputs, inputs)
