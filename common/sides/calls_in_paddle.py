"""Every function that a Paddle model calls, handed to a listener (calls.py)."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import paddle

from twincheck.common.sides.calls import CONVOLUTION, GETTER, INFIX, PREFIX
from twincheck.common.system.intercept import Intercept, stand_in

FOLDERS = (
    *("", "nn.functional", "linalg", "fft", "signal", "incubate.nn.functional", "Tensor"),
    "compat",
)
_SIGNS = {f"__{kind}{name}__" for name in (*INFIX, *PREFIX) for kind in ("", "r", "i")}
_SIGNS |= {"__getitem__", "__setitem__"}
_GETTERS = ("T", "mT", "real", "imag")  # attributes that compute
# Dropout is the tape's: what stands before it is an operator of the mask.
_NOT = ("dropout", "is_tensor", "in_dynamic", "set_", "get_", "seed", "grad", "save", "load")


def _names() -> list[str]:
    """Names from the root of all operators, of one that has several its own first."""
    found = []
    for folder in FOLDERS:
        owner = paddle
        for name in filter(None, folder.split(".")):
            owner = getattr(owner, name, None)
        for name in dir(owner) if owner is not None else ():
            value = inspect.getattr_static(owner, name, None)
            owned = (getattr(value, "__module__", None) or "paddle").split(".")[0]
            if not inspect.isroutine(value) or owned not in ("paddle", "twincheck"):
                continue  # what others have put there is called by another name
            if name.startswith("_") and not (folder == "Tensor" and name in _SIGNS):
                continue
            if not any(part in name for part in _NOT):
                alias = getattr(value, "__name__", name) != name
                found.append((alias, f"{folder}.{name}" if folder else name))
    return [name for _, name in sorted(found, key=lambda one: one[0])]


@contextmanager
def heard(listener: Callable) -> Iterator[None]:
    """Inside, the listener is told of every function that is called."""

    def getter(name, own):
        called = f"paddle.Tensor.{name}{GETTER}"
        return property(lambda tensor: listener(called, own.__get__, (tensor,), {}))

    handles = {name: partial(listener, f"paddle.{name}") for name in (*_names(), CONVOLUTION)}
    with ExitStack() as stack:
        stack.enter_context(Intercept(paddle, handles, ("",)))
        for name in filter(partial(hasattr, paddle.Tensor), _GETTERS):
            instead = getter(name, getattr(paddle.Tensor, name))
            stack.callback(stand_in(paddle.Tensor, name, instead))
        yield
