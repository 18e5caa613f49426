"""A model's own casts to float32, lifted: torch_lift.py and paddle_lift.py are twins.

    patch()   once in a process, before a model's file is imported

common/sides/lift.py says when they are lifted.  All that can make a narrow float is replaced: what
is asked for a dtype, what is called after one, what takes the dtype of NumPy's data.  The rest of
the framework keeps its own functions, and its speed.
"""

import torch

from common.sides import lift
from common.sides.older_torch import patch_older, type_names  # twin: what has no counterpart

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_WIDE = dict.fromkeys(_NARROW, torch.float64)
_WIDE |= dict.fromkeys((torch.complex64, torch.complex32), torch.complex128)  # twin: names
_WIDE |= type_names()  # twin: spellings
# The functions and methods that can be asked for a dtype, as aten calls them.
_ASKED = (  # twin: names
    "arange empty empty_like empty_permuted empty_strided eye from_file full full_like linspace "
    "logspace normal ones ones_like rand rand_like randint randint_like randn randn_like range "
    "scalar_tensor zeros zeros_like new_empty new_empty_strided new_full new_ones new_tensor "
    "new_zeros bartlett_window blackman_window hamming_window hann_window kaiser_window "
    "fft.fftfreq fft.rfftfreq sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor "
    "sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor to to_dense type cumprod cumprod_ "
    "cumsum cumsum_ log_softmax mean nanmean nansum native_norm norm prod softmax sum "
    "linalg.matrix_norm linalg.norm linalg.vector_norm special.log_softmax special.softmax "
    "_sparse_sum _sparse_softmax _sparse_log_softmax addmm baddbmm bmm mm set_default_dtype"
).split()
_FROM_DATA = "tensor as_tensor asarray from_numpy frombuffer from_dlpack".split()  # twin: names
_CALLED = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}
_CALLED |= {"cfloat": torch.complex64, "chalf": torch.complex32}  # twin: names


def patch():
    """Put the lift behind all that can make a narrow float; it does nothing until it is wanted."""
    spelling = lift.Spelling(_WIDE, torch.is_tensor, _widen, _leaf)
    lift.watch_caches()
    owners = (torch, torch.Tensor)
    lift.install(_found(owners, _ASKED, spelling.asked_for))
    lift.install(_found(owners, _FROM_DATA, spelling.from_data))
    for name, narrow in _CALLED.items():
        lift.install([(torch.Tensor, name, spelling.by_name(narrow, torch.Tensor.to))])
    patch_older(spelling)  # twin: what has no counterpart


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
    return value.to(_WIDE.get(value.dtype, torch.float64))


def _leaf(value):
    wide = _widen(value.detach())
    wide.requires_grad = value.requires_grad  # twin: the opposite flag
    return wide
