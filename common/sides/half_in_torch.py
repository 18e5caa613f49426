"""What torch computes in half precision: its own kernels do, on a CPU too; here they are watched.

    with computing(dtype, device): ...

Which operator computed on which types of floats in which module is noted in the session, for a
check to compare (common/verdict/half.py).
"""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

from twincheck.common.sides.session import current
from twincheck.common.system.half import HALF
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import tree_leaves

_DEVICES = {"cpu": "cpu", "gpu": "cuda"}


class _Watch(TorchFunctionMode):
    """Notes each call of a function of torch that is given floats."""

    def __init__(self, device: str):
        super().__init__()
        self.device = device

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        name = getattr(function, "__name__", "").strip("_")
        if name not in ("get", "set", "detach", "clone"):
            given = [list(arguments), options]
            leaves = (value for _, value in tree_leaves(given, torch.is_tensor))
            floats = [str(v.dtype).replace("torch.", "") for v in leaves if v.is_floating_point()]
            if floats and isinstance(options.get("dtype"), torch.dtype):  # it is cast to that first
                floats = [str(options["dtype"]).replace("torch.", "")]
            if floats:
                result = function(*arguments, **options)
                lowered = torch.is_autocast_enabled(self.device) and torch.is_tensor(result)
                if lowered and result.is_floating_point():  # what it was given was cast to that
                    floats = [str(result.dtype).replace("torch.", "")]
                current().note_computed(name, floats)
                return result
        return function(*arguments, **options)


@contextmanager
def computing(dtype, device):
    """Watch inside, where a run is in half precision; says who computes."""
    if dtype not in HALF:
        yield ""
        return
    with _Watch(_DEVICES[device]):
        yield Kind.KERNELS_OF_TORCH()


def mixed(dtype, device):
    """The framework's own mixed precision inside: it casts what it lowers, weights too."""
    return torch.autocast(_DEVICES[device], dtype=getattr(torch, dtype))
