"""Arrays in files, and a model's outputs as arrays under flat names."""

import dataclasses
import inspect

import numpy as np
import paddle


def read(path):
    """Name -> array of an .npz file."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def tensors(arrays):
    """Name -> tensor; floats get the default dtype, integers become int64."""
    return {name: tensor(values) for name, values in arrays.items()}


def tensor(values):
    """A tensor of an array."""
    if values.dtype.kind == "f":
        values = values.astype(str(paddle.get_default_dtype()).replace("paddle.", ""))
    if values.dtype.kind in "iu":
        values = values.astype(np.int64)
    return paddle.to_tensor(np.ascontiguousarray(values))


def taken(model, inputs):
    """Those of the inputs that the model's forward names: labels are the loss's alone."""
    accepted = inspect.signature(model.forward).parameters
    return {name: values for name, values in inputs.items() if name in accepted}


@paddle.jit.not_to_static  # it runs while a program is made, and is no part of it
def flat(outputs, path=()):
    """Name -> tensor of nested outputs; the names of each level are joined by '/'."""
    if paddle.is_tensor(outputs):
        return {"/".join(map(str, path)) or "output": outputs}
    found = {}
    for name, value in _parts(outputs):
        found |= flat(value, (*path, name))
    return found


def _parts(values):
    """(name, part) of a dict, list, tuple, named tuple or dataclass; nothing of all else."""
    if hasattr(values, "items"):
        return list(values.items())
    if hasattr(values, "_asdict"):
        return list(values._asdict().items())
    if isinstance(values, list | tuple):
        return list(enumerate(values))
    if dataclasses.is_dataclass(values):
        return [(field.name, getattr(values, field.name)) for field in dataclasses.fields(values)]
    return []
