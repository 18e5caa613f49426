"""Tensors of this side and arrays: torch_tensors.py and paddle_tensors.py are twins."""

from contextlib import contextmanager

import numpy as np
import paddle

from common.system.errors import UserError
from common.system.half import HALF
from common.system.matrices import contiguous

NAME = "paddle"
VERSION = paddle.__version__
FILE = paddle.__file__
_ready = np.asarray  # twin: a tensor here, an array in Paddle; before torch_lift.py's patch
_VIEWED = (paddle.float32, paddle.float64) if hasattr(paddle.Tensor, "__dlpack__") else ()
_COMPLEX = {"float32": "complex64", "float64": "complex128"}


def array(tensor):
    """A tensor's values as an array of the same dtype; bfloat16, which NumPy lacks, in float32.

    A complex value becomes two floats along one more axis: its real and its imaginary part.
    """
    if tensor.dtype == paddle.bfloat16:
        tensor = tensor.astype(paddle.float32)
    if tensor.is_complex():
        tensor = paddle.stack([paddle.real(tensor), paddle.imag(tensor)], -1)
    return tensor.detach().cpu().numpy()


def view(tensor):
    """The same, for who is done with it before the tensor changes: where that can be, no copy."""
    if tensor.dtype in _VIEWED and tensor.place.is_cpu_place():  # twin: where it is
        return np.from_dlpack(tensor.detach())
    return array(tensor)


def shape(tensor):
    """The shape that a tensor's array has."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


def like(values, value):
    """A tensor of an array's values with another tensor's dtype, complex where that is."""
    values = tensor(contiguous(np.asarray(values)))
    if value.is_complex():
        values = paddle.as_complex(values)  # twin: another name
    return values.astype(value.dtype)


def to_load(values, value):
    """The values for a model to load into a tensor of its own, which copies them; not a copy."""
    if value.is_complex() or value.dtype == paddle.bfloat16:
        return like(values, value)
    dtype = str(value.dtype).rpartition(".")[2]  # twin: who converts
    return _ready(contiguous(np.asarray(values, dtype)))


def tensor(values):
    """A tensor of the values; floats take the run's dtype, other types stay."""
    values = np.asarray(values)
    dtype = str(paddle.get_default_dtype()).replace("paddle.", "")
    half = dtype in HALF and values.dtype.kind == "f"  # NumPy has no bfloat16
    wanted = {"f": "float32" if half else dtype, "c": _COMPLEX.get(dtype)}
    values = np.array(values, wanted.get(values.dtype.kind, values.dtype))
    made = paddle.to_tensor(values)  # twin: how a tensor is made
    return made.astype(dtype) if half else made  # twin: Paddle takes the dtype's name


def device():
    """The device that tensors are put on, as the framework writes it."""
    return str(paddle.get_device())  # twin: where the default device is kept


def set_up(dtype, device_name, seed):
    """Prepare this process for a run in a precision, `dtype`; `device_name` is cpu or gpu."""
    if device_name == "gpu" and not paddle.device.is_compiled_with_cuda():  # twin: how to ask
        raise UserError("--device gpu: paddle finds no GPU here; use --device cpu")
    # On CPU torch needs no default device, which would slow every call.
    paddle.set_device(device_name)  # twin: how to choose
    if device_name == "gpu":
        paddle.set_flags({"FLAGS_cudnn_deterministic": True})  # twin: a flag in Paddle
    paddle.set_default_dtype(dtype)  # twin: Paddle takes the dtype's name
    paddle.seed(seed)
    paddle.disable_static()  # twin: one way to run, with gradients or not


@contextmanager
def seeded(seed):
    """Draw from this seed for a while; then the draws go on as if nothing had been drawn."""
    state = generator_state()
    paddle.seed(seed)
    try:
        yield
    finally:
        set_generator_state(state)


def generator_state():
    """Where the draws of this framework stand, for `set_generator_state`."""
    return paddle.get_rng_state()


def set_generator_state(state):
    """Let the draws go on from there."""
    paddle.set_rng_state(state)


def no_grad():
    """A context in which no gradient is asked for."""
    return paddle.no_grad()


@contextmanager
def default_dtype(dtype):
    """Inside, floats are made in this precision unless they are asked for another."""
    saved = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)  # twin: Paddle takes the dtype's name
    try:
        yield
    finally:
        paddle.set_default_dtype(saved)


def is_tensor(value):
    """True for this side's tensors."""
    return paddle.is_tensor(value)


def is_float(value):
    """True for tensors that gradients can flow through, complex ones among them."""
    return paddle.is_tensor(value) and (paddle.is_floating_point(value) or value.is_complex())
