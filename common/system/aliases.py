"""Further names of arguments: newer Paddle takes torch's, and torch takes NumPy's."""

import functools
from collections.abc import Callable

ALIASES = {
    "torch": {"x": "input", "axis": "dim", "keepdims": "keepdim"},
    "paddle": {"input": "x", "dim": "axis", "other": "y", "keepdims": "keepdim"},
}


def under_its_names(function: Callable, framework: str) -> Callable:
    """What stands in for a framework's function, with its arguments under the names it knows."""
    aliases = ALIASES[framework]

    @functools.wraps(function)
    def called(*arguments, **options):
        return function(*arguments, **{aliases.get(k, k): v for k, v in options.items()})

    return called
