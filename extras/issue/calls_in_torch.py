"""Every operator that a torch model calls, handed to a recorder (tape.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from twincheck.extras.issue.tape import Recorder, changed, written

GETTER = ".__get__"


def _found(name: str) -> str:
    """The name of a function in whose place something stands; empty for none of a public name."""
    owners = {"torch.nn.functional": torch.nn.functional, "torch": torch}
    return next(
        (f"{owner}.{name}" for owner, of in owners.items() if name and hasattr(of, name)), ""
    )


class _Watch(TorchFunctionMode):
    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = resolve_name(func) or _found(getattr(func, "__name__", ""))
        if not name:
            return func(*args, **kwargs)
        text = partial(written, name)
        if name.endswith(GETTER):
            attribute = name.removesuffix(GETTER).rpartition(".")[2]
            return self.recorder.call(func, args, kwargs, lambda w, n: f"{w[0]}.{attribute}")
        return self.recorder.call(func, args, kwargs, text, changed(name))


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Inside, the recorder is told of every operator."""
    with _Watch(recorder):
        yield
