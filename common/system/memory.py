"""Freed memory that a process keeps for its next arrays, as long as it computes.

The C library gives a large array's memory back to the system as soon as it is freed, and the system
clears each page of the next one: for tensors that are as large as a model's weights, that takes
longer than most of what is computed with them.  Values do not depend on it.
"""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Numbers of mallopt's settings, from glibc's malloc.h, and what each is set to: no array is so
# large that it is given back when freed, what is free at the end is not either, and the process
# asks for so much more at a time.
_KEEP = {-3: 2**31 - 1, -1: -1, -2: 1 << 26}
# Arrays of 4 MB and more have memory of their own, which goes with them.
_GIVE_BACK = {-4: 1 << 16, -3: 1 << 22, -1: 1 << 26, -2: 1 << 20}


def keep_freed_memory() -> None:
    """Keep what is freed from now on; does nothing where the C library is not glibc."""
    _set(_KEEP)


def do_not_keep_freed_memory() -> None:
    """Give back what is freed from now on: for a process that memory is scarce for."""
    _set(_GIVE_BACK)


def _set(settings: dict[int, int]) -> None:
    mallopt = _of_glibc("mallopt")
    for setting, value in settings.items() if mallopt else ():
        mallopt(setting, value)


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
    trim = _of_glibc("malloc_trim")
    if trim:
        trim(0)


def _of_glibc(name: str) -> Callable | None:
    """A function of the C library; None where it has no such function."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None
