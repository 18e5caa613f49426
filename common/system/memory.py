"""Memory that a worker keeps while it computes and gives back before it waits; cycles let be.

The variables MALLOC_… of a worker (processes.py) keep what is freed in the process.
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Inside, nobody looks for cycles: imports and constructors make much and drop little."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def give_back_freed_memory() -> None:
    """Give the system back what is free now, before a process waits while others compute."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim:
        trim(0)
