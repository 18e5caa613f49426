"""Planted faults for tests: a module made once more with one place of its text changed."""

import importlib.util
import inspect
from types import ModuleType


def mutant(module: ModuleType, old: str, new: str) -> ModuleType:
    """A copy of a module in which `old`, which must be there once, is `new`."""
    text = inspect.getsource(module)
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    spec = importlib.util.spec_from_loader(module.__name__, loader=None, origin=module.__file__)
    made = importlib.util.module_from_spec(spec)
    made.__file__ = module.__file__
    exec(compile(text.replace(old, new), module.__file__, "exec"), made.__dict__)
    return made
