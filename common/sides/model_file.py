"""A pair's model file of one side, imported once for each precision where that makes a difference.

A float64 run cannot use what a file makes in float32 when it is imported, nor a float32 run what a
table of the file keeps of a float64 run.
"""

import sys
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from types import ModuleType

from common.pair.pairs import Pair
from common.sides.compat import COMPAT, torch_is_paddle
from common.sides.upcast import upcasting
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.memory import no_collections

_in_float64: dict[str, tuple[ModuleType, ModuleType]] = {}  # name -> (as imported first, the other)


def load_model_file(pair: Pair, side: ModuleType, dtype: str = "float32") -> ModuleType:
    """The pair's module of a side for runs in a precision.

    Raises UserError where `import torch` then gives Paddle.
    """
    try:
        with upcasting(False), side.default_dtype("float32"), no_collections():
            module = pair.side(side.NAME)
    finally:
        if torch_is_paddle():  # whatever else goes wrong by that
            raise UserError(COMPAT)
    if dtype != "float64" or pair.built_in:
        return module
    known = _in_float64.get(module.__name__)
    if known is None or known[0] is not module:
        own = _own_modules(pair)
        again = any(_keeps_floats(value, side.is_float) for value in own.values())
        other = _import_again(pair, side, own) if again else module
        known = _in_float64[module.__name__] = module, other
    return known[1]


def _own_modules(pair: Pair) -> dict[str, ModuleType]:
    """Name -> module of what has been imported from the pair's folder, but for its case.py."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/")
        if not file.is_relative_to(pair.folder) or file == pair.folder / "case.py":
            continue
        workbench = file.is_relative_to(ROOT) and not pair.folder.is_relative_to(ROOT)
        if not workbench and "site-packages" not in file.parts:
            found[name] = module
    return found


def _import_again(pair: Pair, side: ModuleType, own: dict[str, ModuleType]) -> ModuleType:
    """The side's module, imported in float64; the one that there is where that cannot be done."""
    first = pair.side(side.NAME)
    for name in own:
        del sys.modules[name]
    try:
        with upcasting(True), side.default_dtype("float64"):
            return pair.side(side.NAME)
    except Exception:  # it registers something that is there already, say
        return first
    finally:
        for name in _own_modules(pair):
            del sys.modules[name]
        sys.modules.update(own)


def _keeps_floats(module: ModuleType, is_float: Callable[[object], bool]) -> bool:
    """True for a module that holds a tensor of floats, or a table that can come to hold one."""
    return any(_holds_floats(value, is_float) for value in _values(module))


def _values(module: ModuleType) -> Iterator[object]:
    """The module's own globals, and what its classes hold beside their methods."""
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        yield value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from (v for k, v in vars(value).items() if not k.startswith("__"))


def _holds_floats(value: object, is_float: Callable[[object], bool], depth: int = 3) -> bool:
    if isinstance(value, MutableMapping | list | tuple) and depth:
        if not value:
            return not isinstance(value, tuple)
        values = value.values() if isinstance(value, MutableMapping) else value
        return any(_holds_floats(item, is_float, depth - 1) for item in values)
    return is_float(value)
