"""Arrays in files, and a model's outputs as arrays under flat names."""

import dataclasses
import inspect

import numpy as np
import paddle

from .nested import nested

# Of the largest value of an output: another order of operations rounds otherwise.
ALLOWED = 1e-5


def read(path):
    """Name -> array of an .npz file."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def samples(folder):
    """Read what a saved program is made for and tried with: a few test samples, or the example."""
    test = folder / "data" / "test.npz"
    if not test.is_file():
        return read(folder / "example" / "inputs.npz")
    return {name: values[:4] for name, values in read(test).items()}


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
    """Return the inputs that the model's forward names: labels are the loss's alone."""
    accepted = inspect.signature(model.forward).parameters
    return {name: values for name, values in inputs.items() if name.split("/")[0] in accepted}


@paddle.jit.not_to_static  # as `flat`
def arguments(tensors):
    """The arguments of a forward: 'parts/0' and 'parts/1' are the two of a list called parts."""
    return nested(tensors)


def compared(values, wanted):
    """Return whether an output is the model's within rounding, and the numbers of it."""
    if (values.shape, values.dtype) == (wanted.shape, wanted.dtype):
        if values.tobytes() == wanted.tobytes():
            return True, "the same bits"
    if values.shape != wanted.shape:
        return False, f"DIFFERS: shape {list(values.shape)} instead of {list(wanted.shape)}"
    if wanted.dtype.kind != "f":
        return False, "DIFFERS: other integers"
    difference = np.abs(values.astype(np.float64) - wanted)
    largest, allowed = difference.max(initial=0.0), ALLOWED * np.abs(wanted).max(initial=0.0)
    same = bool(np.isfinite(values).all() and largest <= allowed)
    told = f"largest difference {largest:.3g}, mean {difference.mean():.3g}, allowed {allowed:.3g}"
    return same, told if same else f"{told}: MORE than rounding"


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
