"""The table of operators that torch can compute in a Paddle twin, and what its entries share.

`TABLE` maps an operator's name (what --transplant takes) to the functions of Paddle that it stands
for, each with the same computation in torch.  Those take Paddle's arguments, as tensors of torch.
Where torch has no such form they raise Untaken, and Paddle's own function runs.  functional.py and
tensors.py, beside this file, fill the table; patch.py puts its functions in place.

torch is imported when the first of them runs: the check's process asks for the names alone.
"""

import importlib
from collections.abc import Callable

TABLE: dict[str, dict[str, Callable]] = {}  # operator -> {Paddle's name: torch's computation}


class Untaken(Exception):
    """This call has no counterpart in torch; Paddle's own runs."""


class _OnFirstUse:
    """A module that is imported when one of its functions is first asked for."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str):
        return getattr(importlib.import_module(self._name), attribute)


torch = _OnFirstUse("torch")
F = _OnFirstUse("torch.nn.functional")


def operator(name, *paths):
    """Enter a function under an operator, for each of Paddle's names (`Tensor.` for methods)."""

    def enter(function):
        TABLE.setdefault(name, {}).update(dict.fromkeys(paths, function))
        return function

    return enter


def axes(axis):
    """Paddle's axis (None, integer, list) as torch's dim."""
    return tuple(int(a) for a in axis) if isinstance(axis, list | tuple) else axis


def sizes(values):
    """Paddle's integer, or list of integers, as torch wants a size."""
    return tuple(int(v) for v in values) if isinstance(values, list | tuple) else int(values)


def channels_first(data_format):
    """Raise Untaken for Paddle's layouts with the channels last."""
    if data_format not in ("NCL", "NC", "NCHW", "NCDHW"):
        raise Untaken(f"data_format {data_format}")


def same_name(module, name):
    """torch's function of one tensor that has this name in one of its modules."""
    return lambda x: getattr(module, name)(x)
