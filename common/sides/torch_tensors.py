"""Tensors of this side and arrays: torch_tensors.py and paddle_tensors.py are twins."""

import numpy as np
import torch

from common.system.errors import UserError

NAME = "torch"
VERSION = torch.__version__
FILE = torch.__file__

no_gradients = torch.no_grad


def array(tensor):
    """A tensor's values as an array of the same dtype; bfloat16, which NumPy lacks, in float32."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.to(torch.float32)
    return tensor.detach().cpu().numpy()


def tensor(values):
    """A tensor of the values; floats take the run's dtype, other types stay."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        values = values.astype(str(torch.get_default_dtype()).replace("torch.", ""))
    return torch.as_tensor(np.array(values), device=device())  # twin: how a tensor is made


def device():
    """The device that tensors are put on, as the framework writes it."""
    return str(torch.get_default_device())  # twin: where the default device is kept


def set_up(dtype, device_name, seed):
    """Prepare this process for a run: `dtype` float32 or float64, `device_name` cpu or gpu."""
    if device_name == "gpu" and not torch.cuda.is_available():  # twin: how to ask
        raise UserError("--device gpu: torch finds no GPU here; use --device cpu")
    # On CPU torch needs no default device, which would slow every call.
    torch.set_default_device("cuda") if device_name == "gpu" else None  # twin: how to choose
    if device_name == "gpu":
        torch.use_deterministic_algorithms(True, warn_only=True)  # twin: a flag in Paddle
    torch.set_default_dtype(getattr(torch, dtype))  # twin: Paddle takes the dtype's name
    torch.manual_seed(seed)
    torch.backends.mha.set_fastpath_enabled(False)  # twin: one way to run, with gradients or not


def is_tensor(value):
    """True for this side's tensors."""
    return torch.is_tensor(value)


def is_float(value):
    """True for tensors that gradients can flow through."""
    return torch.is_tensor(value) and torch.is_floating_point(value)
