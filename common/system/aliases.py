"""Further names of arguments: newer Paddle takes torch's, and torch takes NumPy's."""

from collections.abc import Callable

from twincheck.common.system.intercept import Handle

ALIASES = {
    "torch": {"x": "input", "axis": "dim", "keepdims": "keepdim"},
    "paddle": {"input": "x", "dim": "axis", "other": "y", "keepdims": "keepdim"},
}


def under_its_names(function: Callable, framework: str) -> Handle:
    """Return a handle that answers with `function`, its arguments under the names it knows."""
    aliases = ALIASES[framework]

    def handle(own: Callable, arguments, options):
        return function(*arguments, **{aliases.get(k, k): v for k, v in options.items()})

    return handle
