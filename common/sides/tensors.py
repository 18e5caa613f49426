"""Tensors of a side and arrays."""

import os
import random
from contextlib import contextmanager

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.half import HALF
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.reasons import Kind

_COMPLEX = {"float32": "complex64", "float64": "complex128"}


def array(side, tensor):
    """A tensor's values as an array of the same dtype; bfloat16, which NumPy lacks, in float32.

    A complex value becomes two floats along one more axis: its real and its imaginary part.
    """
    if tensor.dtype == side.lib.bfloat16:
        tensor = side.cast(tensor, side.lib.float32)
    if tensor.is_complex():
        tensor = side.lib.stack([side.lib.real(tensor), side.lib.imag(tensor)], -1)
    return tensor.detach().cpu().numpy()


def view(side, tensor):
    """The same, for who is done with it before the tensor changes: where that can be, no copy."""
    usual = tensor.dtype in (side.lib.float32, side.lib.float64)
    if usual and hasattr(side.lib.Tensor, "__dlpack__") and side.is_on_cpu(tensor):
        return np.from_dlpack(tensor.detach())
    return side.array(tensor)


def shape(tensor):
    """The shape that a tensor's array has."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


def like(side, values, value):
    """A tensor of an array's values with another tensor's dtype, complex where that is."""
    values = side.tensor(contiguous(np.asarray(values)))
    if value.is_complex():
        values = side.as_complex(values)
    return side.cast(values, value.dtype)


def to_load(side, values, value):
    """The values for a model to load into a tensor of its own, which copies them; not a copy."""
    if value.is_complex() or value.dtype == side.lib.bfloat16:
        return side.like(values, value)
    return side.ready(values, value)


def tensor(side, values):
    """A tensor of the values; floats take the run's dtype, other types stay."""
    values = np.asarray(values)
    dtype = side.default_dtype_name()
    half = dtype in HALF and values.dtype.kind == "f"  # NumPy has no bfloat16
    wanted = {"f": "float32" if half else dtype, "c": _COMPLEX.get(dtype)}
    made = side.from_array(np.array(values, wanted.get(values.dtype.kind, values.dtype)))
    return side.cast(made, getattr(side.lib, dtype)) if half else made


def set_up(side, dtype, device_name, seed):
    """Prepare this process for a run in a precision, `dtype`; `device_name` is cpu or gpu."""
    found, needed = side.CUDA.device_count(), int(os.environ.get(side.PROCESSES_HERE, "1"))
    if device_name == "gpu" and found < needed:
        other = next(name for name in SIDES if name != side.NAME)
        few = Kind.FEW_GPUS(found=found, needed=needed) if found else Kind.NO_GPU()
        raise UserError(Kind.GPU_MISSING(framework=side.NAME, found=few, other=other))
    side.use_device(device_name)
    side.set_default_dtype(dtype)
    _seed(side, seed)


def _seed(side, seed):
    """Seed every generator that a model may draw from: the framework's, NumPy's and Python's."""
    side.seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def of_gpu(side):
    """The GPU's name, and whether float32's products are of numbers rounded to TF32's 11 bits."""
    float32 = side.lib.float32
    values = side.lib.full([256, 256], 1 + 2.0**-13, dtype=float32)
    kept = side.lib.matmul(values, side.lib.eye(256, dtype=float32)) == values
    return {"gpu": side.CUDA.get_device_name(), "tf32": "off" if bool(kept.all()) else "on"}


@contextmanager
def seeded(side, seed):
    """Draw from this seed for a while; then the draws go on as if nothing had been drawn."""
    states = side.generator_state(), np.random.get_state(), random.getstate()
    _seed(side, seed)
    try:
        yield
    finally:
        side.set_generator_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


@contextmanager
def default_dtype(side, dtype):
    """Inside, floats are made in this precision unless they are asked for another."""
    saved = side.default_dtype_name()
    side.set_default_dtype(dtype)
    try:
        yield
    finally:
        side.set_default_dtype(saved)


def default_dtype_name(side):
    """The dtype that floats are made in: float32."""
    return str(side.lib.get_default_dtype()).rpartition(".")[2]


def is_float(side, value):
    """True for tensors that gradients can flow through, complex ones among them."""
    return side.is_tensor(value) and (side.lib.is_floating_point(value) or value.is_complex())
