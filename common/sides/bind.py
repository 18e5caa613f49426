"""One text for both frameworks: an instrument takes a side first; a side has it bound to itself.

A side is a module with a backend's names (backend_torch.py, backend_paddle.py: what a framework
calls things) and the instruments.  These ask it for both, so that two sides can be in one process.
"""

import inspect
from functools import partial

from twincheck.common.sides import (
    batch_norm,
    dropouts,
    group,
    instruments,
    loader,
    losses,
    optimizer,
    probes,
    tensors,
    weights,
)

INSTRUMENTS = (
    *(tensors, probes, weights, optimizer, dropouts, batch_norm),
    *(instruments, losses, loader, group),
)


def bind(side, modules=INSTRUMENTS):
    """Give a side what is public in these modules; what takes `side` first will have it."""
    for module in modules:
        for name, value in list(vars(module).items()):
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            takes_side = next(iter(inspect.signature(value).parameters), "") == "side"
            setattr(side, name, partial(value, side) if takes_side else value)
