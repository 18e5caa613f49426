"""A model's own casts to float32, lifted: torch_lift.py and paddle_lift.py are twins.

    patch()   once in a process, before a model's file is imported

common/sides/lift.py says when they are lifted.  All that can make a narrow float is replaced: what
is asked for a dtype, what is called after one, what takes the dtype of NumPy's data.  The rest of
the framework keeps its own functions, and its speed.
"""

import paddle

from common.sides import lift
from common.sides import narrow_in_paddle as narrow

_spelling = None


def patch():
    """Put the lift behind all that can make a narrow float; it does nothing until it is wanted."""
    global _spelling
    if _spelling is not None:
        return
    wide = narrow.spellings()
    _spelling = lift.Spelling(wide, paddle.is_tensor, _widen, _leaf)
    lift.watch_caches()
    lift.install(_found(narrow.ASKED, _spelling.asked_for))
    lift.install(_found(narrow.FROM_DATA, _spelling.from_data))
    for name, dtype in narrow.CALLED.items():
        lift.install([(paddle.Tensor, name, _spelling.by_name(dtype, _cast))])
    narrow.patch_own_ways(_spelling)


def _found(names, replace):
    """(owner, name, replace) of each of these that the installed version has."""
    for owner in (paddle, paddle.Tensor):
        for name in names:
            *parts, last = name.split(".")
            holder = owner
            for part in parts:
                holder = getattr(holder, part, None)
            if hasattr(holder, last):
                yield holder, last, replace


def _cast(value, dtype):
    return value.astype(dtype)


def _widen(value):
    return value.astype(_spelling.wide.get(value.dtype, paddle.float64))


def _leaf(value):
    wide = _widen(value.detach())
    wide.stop_gradient = value.stop_gradient  # twin: the opposite flag
    return wide
