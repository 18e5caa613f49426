"""A model's own casts to float32, lifted: torch_lift.py and paddle_lift.py are twins.

    patch()   once in a process, before a model's file is imported

common/sides/lift.py says when they are lifted.  All that can make a narrow float is replaced: what
is asked for a dtype, what is called after one, what takes the dtype of NumPy's data.  The rest of
the framework keeps its own functions, and its speed.
"""

import paddle

from common.sides import lift
from common.sides.integers_in_paddle import patch_integers, spellings  # twin: what has no counterpart

_NARROW = (paddle.float32, paddle.float16, paddle.bfloat16)
_WIDE = dict.fromkeys(_NARROW, paddle.float64)
_WIDE |= dict.fromkeys((paddle.complex64,), paddle.complex128)  # twin: names
_WIDE |= spellings()  # twin: spellings
# Paddle's functions all end in these, by whatever name a model has imported them.
_ASKED = (  # twin: names
    "_C_ops.arange _C_ops.range_v2 _C_ops.assign_value _C_ops.assign_value_ _C_ops.cast "
    "_C_ops.cast_ _C_ops.cummax _C_ops.cummin _C_ops.empty _C_ops.empty_like _C_ops.eye "
    "_C_ops.full _C_ops.full_ _C_ops.full_batch_size_like _C_ops.full_like "
    "_C_ops.full_int_array _C_ops.full_with_tensor _C_ops.gaussian _C_ops.gaussian_inplace "
    "_C_ops.linspace _C_ops.logspace _C_ops.mean _C_ops.nansum _C_ops.prod _C_ops.randint "
    "_C_ops.randperm _C_ops.sequence_mask "
    "_C_ops.sparse_cast _C_ops.sparse_sum _C_ops.sum _C_ops.truncated_gaussian_random "
    "_C_ops.uniform _C_ops.uniform_random_batch_size_like "
    "Tensor.astype Tensor.to Tensor._to nn.Layer.astype nn.Layer._to_impl set_default_dtype "
    "framework.set_default_dtype base.layer_helper_base.LayerHelperBase.create_parameter"
).split()
_FROM_DATA = ["tensor.creation._to_tensor_non_static", "assign"]  # twin: names
_CALLED = {"float": paddle.float32, "half": paddle.float16, "bfloat16": paddle.bfloat16}
_CALLED |= {"float32": paddle.float32, "float16": paddle.float16}  # twin: names


def patch():
    """Put the lift behind all that can make a narrow float; it does nothing until it is wanted."""
    spelling = lift.Spelling(_WIDE, paddle.is_tensor, _widen, _leaf)
    lift.watch_caches()
    owners = (paddle,)
    lift.install(_found(owners, _ASKED, spelling.asked_for))
    lift.install(_found(owners, _FROM_DATA, spelling.from_data))
    for name, narrow in _CALLED.items():
        lift.install([(paddle.Tensor, name, spelling.by_name(narrow, paddle.Tensor.astype))])
    patch_integers(spelling)  # twin: what has no counterpart


def _found(owners, names, replace):
    """(owner, name, replace) of every function of these names that this version has."""
    for owner in owners:
        for name in names:
            *parts, last = name.split(".")
            holder = owner
            for part in parts:
                holder = getattr(holder, part, None)
            if hasattr(holder, last):
                yield holder, last, replace


def _widen(value):
    return value.astype(_WIDE.get(value.dtype, paddle.float64))


def _leaf(value):
    wide = _widen(value.detach())
    wide.stop_gradient = value.stop_gradient  # twin: the opposite flag
    return wide
