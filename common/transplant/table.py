"""The table of operators that torch can compute in a Paddle worker, and what its entries share.

`TABLE` maps an operator's name (what --transplant takes) to the functions of Paddle that it stands
for, each with the same computation in torch.  Those take Paddle's arguments, as tensors of torch.
Where torch has no such form they raise Untaken, and Paddle's own function runs.  operators.py,
beside this file, fills the table; patch.py puts its functions in place.

torch is imported when the first of them runs: the check's process asks for the names alone.
"""

import importlib
import inspect
from collections.abc import Callable
from functools import cache

from twincheck.common.system.aliases import ALIASES

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


def by_name(own: Callable, function: Callable, arguments, options) -> dict[str, object]:
    """What a call of `own` gives, by the names of `function`, which stands for it.

    The names are those of Paddle's function, and what the call leaves out has its default there if
    `function` asks for it.  Where that is written in C, or names them otherwise, those of
    `function` are taken.  Raises Untaken for an argument that it does not take.
    """
    taken = _signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    untaken = "arguments of another kind"
    for signature in filter(None, (_signature(own), _signature(function))):
        given, known = _bound(signature, arguments, options), signature.parameters
        others = [
            name
            for name, value in given.items()
            if not (takes_all or name in taken or name == "name" or value is None)
            if name not in known or value != known[name].default
        ]
        if others == ["data_format"]:
            channels_first(given["data_format"])
        elif others:
            untaken = f"argument {others[0]}"
            continue
        if given:
            named = {k: v for k, v in given.items() if takes_all or k in taken}
            for name in taken.keys() & known.keys() - named.keys():
                if taken[name].default is inspect.Parameter.empty:
                    named[name] = known[name].default
            return named
    raise Untaken(untaken)


@cache
def _signature(function: Callable) -> inspect.Signature | None:
    """A function's signature; None where it is written in C."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _bound(signature: inspect.Signature, arguments, options) -> dict[str, object]:
    """The arguments of a call by their names; nothing where they do not fit."""
    renamed = {ALIASES["paddle"].get(name, name): value for name, value in options.items()}
    for named in (options, renamed):
        try:
            return signature.bind(*arguments, **named).arguments
        except TypeError:
            continue
    return {}


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
