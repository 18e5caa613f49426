"""Every function that a torch model calls, handed to a listener (calls.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode


def _found(name: str) -> str:
    """The name of a function in whose place something stands; empty for none of a public name."""
    owners = {"torch.nn.functional": torch.nn.functional, "torch": torch}
    return next(
        (f"{owner}.{name}" for owner, of in owners.items() if name and hasattr(of, name)), ""
    )


class _Functions(TorchFunctionMode):
    def __init__(self, listener: Callable):
        super().__init__()
        self.listener = listener

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = resolve_name(func) or _found(getattr(func, "__name__", ""))
        hear = self.listener if name else _unheard
        return hear(name, func, args, kwargs or {})


class _Operators(TorchDispatchMode):
    def __init__(self, listener: Callable):
        super().__init__()
        self.listener = listener

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.listener(f"torch.{func.overloadpacket.__name__}", func, args, kwargs or {})


def _unheard(name, own, arguments, options):
    return own(*arguments, **options)


@contextmanager
def heard(listener: Callable) -> Iterator[None]:
    """Inside, the listener is told of every function that is called from outside of torch."""
    with _Functions(listener):
        yield


@contextmanager
def heard_inside(listener: Callable) -> Iterator[None]:
    """Inside, while a listener calls a function, another is told of the operators in it."""
    with _Operators(listener):
        yield
