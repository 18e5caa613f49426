"""How a call of a Paddle function is read by the names of what stands for it.

A formula (formulas.py), or torch's function where it computes Paddle's operators (an extra), takes
Paddle's arguments by name; where it has no such form it raises Untaken, and Paddle's own runs.
"""

import inspect
from collections.abc import Callable
from functools import cache

from twincheck.common.system.aliases import ALIASES
from twincheck.common.system.reasons import Kind

TRANSPLANTS = "twincheck.transplants"  # entry points: what --transplant does
SMALLEST = "smallest"  # its word for the search


class Untaken(Exception):
    """This call has no counterpart in torch; Paddle's own runs."""


def by_name(own: Callable, function: Callable, arguments, options) -> dict[str, object]:
    """Return the arguments of a call of `own` by the names of `function`, which stands for it.

    The names are those of Paddle's function, and what the call leaves out has its default there if
    `function` asks for it.  Where that is written in C, or names them otherwise, those of
    `function` are taken.  Raises Untaken for an argument that it does not take.
    """
    taken = _signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    untaken = Kind.UNTAKEN_ARGUMENTS()
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
            untaken = Kind.UNTAKEN_ARGUMENT(name=others[0])
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


def channels_first(data_format):
    """Raise Untaken for Paddle's layouts with the channels last."""
    if data_format not in ("NCL", "NC", "NCHW", "NCDHW"):
        raise Untaken(Kind.UNTAKEN_LAYOUT(layout=str(data_format)))
