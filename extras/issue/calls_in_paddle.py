"""Every operator that a Paddle model calls, handed to a recorder (tape.py)."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import paddle

from twincheck.common.system.intercept import Intercept, stand_in
from twincheck.extras.issue.tape import INFIX, PREFIX, Recorder, changed, written

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


# What layers call in place of conv2d and conv3d, and what of it those take.
_CONVOLUTION = "nn.functional.conv._conv_nd"
_OF_CONVOLUTION = ("bias", "stride", "padding", "dilation", "groups", "data_format")


def _convolution(words: list[str], named: dict[str, str]) -> str:
    """A layer's convolution as people write it."""
    if named["padding_algorithm"] != "'EXPLICIT'":
        named = named | {"padding": named["padding_algorithm"]}
    kind = "conv3d" if "conv3d" in named["op_type"] else "conv2d"
    named = {name: named[name] for name in _OF_CONVOLUTION}
    return written(f"paddle.nn.functional.{kind}", words, named)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Inside, the recorder is told of every operator."""

    def handle(name, own, arguments, options):
        text = _convolution if name == _CONVOLUTION else partial(written, f"paddle.{name}")
        return recorder.call(own, arguments, options, text, changed(name))

    def getter(name, own):
        def get(tensor):
            return recorder.call(own.__get__, (tensor,), {}, lambda w, n: f"{w[0]}.{name}")

        return property(get)

    handles = {name: partial(handle, name) for name in (*_names(), _CONVOLUTION)}
    with ExitStack() as stack:
        stack.enter_context(Intercept(paddle, handles, ("",)))
        for name in filter(partial(hasattr, paddle.Tensor), _GETTERS):
            instead = getter(name, getattr(paddle.Tensor, name))
            stack.callback(stand_in(paddle.Tensor, name, instead))
        yield
