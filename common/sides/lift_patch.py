"""A model's own casts to float32, lifted: what lift.py makes, put behind a framework.

    patch(side)   once in a process, before a model's file is imported

All that can make a narrow float is replaced: what is asked for a dtype, what is called after one,
what takes the dtype of NumPy's data.  The rest of the framework keeps its own functions, and its
speed.
"""

import functools
import importlib

from common.sides import lift


@functools.cache
def patch(side):
    """Put the lift behind all that can make a narrow float; it does nothing until it is wanted."""
    narrow = importlib.import_module(f"common.sides.narrow_in_{side.NAME}")
    wide = narrow.spellings()

    def widen(value):
        return side.cast(value, wide.get(value.dtype, side.lib.float64))

    def leaf(value):
        widened = widen(value.detach())
        side.want_gradient(widened, side.wants_gradient(value))
        return widened

    spelling = lift.Spelling(wide, side.is_tensor, widen, leaf)
    lift.watch_caches()
    lift.install(_found(side, narrow.ASKED, spelling.asked_for))
    lift.install(_found(side, narrow.FROM_DATA, spelling.from_data))
    for name, dtype in narrow.CALLED.items():
        lift.install([(side.lib.Tensor, name, spelling.by_name(dtype, side.cast))])
    narrow.patch_own_ways(spelling)


def _found(side, names, replace):
    """(owner, name, replace) of each of these that the installed version has."""
    for owner in (side.lib, side.lib.Tensor):
        for name in names:
            *parts, last = name.split(".")
            holder = owner
            for part in parts:
                holder = getattr(holder, part, None)
            if hasattr(holder, last):
                yield holder, last, replace
