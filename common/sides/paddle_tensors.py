"""Tensors of this side and arrays: torch_tensors.py and paddle_tensors.py are twins."""

import numpy as np
import paddle

from common.system.errors import UserError

NAME = "paddle"
VERSION = paddle.__version__
FILE = paddle.__file__

no_gradients = paddle.no_grad


def array(tensor):
    """A tensor's values as an array of the same dtype; bfloat16, which NumPy lacks, in float32."""
    if tensor.dtype == paddle.bfloat16:
        tensor = tensor.astype(paddle.float32)
    return tensor.detach().cpu().numpy()


def tensor(values):
    """A tensor of the values; floats take the run's dtype, other types stay."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        values = values.astype(str(paddle.get_default_dtype()).replace("paddle.", ""))
    return paddle.to_tensor(np.array(values))  # twin: how a tensor is made


def device():
    """The device that tensors are put on, as the framework writes it."""
    return str(paddle.get_device())  # twin: where the default device is kept


def set_up(dtype, device_name, seed):
    """Prepare this process for a run: `dtype` float32 or float64, `device_name` cpu or gpu."""
    if device_name == "gpu" and not paddle.device.is_compiled_with_cuda():  # twin: how to ask
        raise UserError("--device gpu: paddle finds no GPU here; use --device cpu")
    # On CPU torch needs no default device, which would slow every call.
    paddle.set_device(device_name)  # twin: how to choose
    if device_name == "gpu":
        paddle.set_flags({"FLAGS_cudnn_deterministic": True})  # twin: a flag in Paddle
    paddle.set_default_dtype(dtype)  # twin: Paddle takes the dtype's name
    paddle.seed(seed)
    paddle.disable_static()  # twin: one way to run, with gradients or not


def is_tensor(value):
    """True for this side's tensors."""
    return paddle.is_tensor(value)


def is_float(value):
    """True for tensors that gradients can flow through."""
    return paddle.is_tensor(value) and paddle.is_floating_point(value)
