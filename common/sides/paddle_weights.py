"""Weights and gradients of a model of this side, in and out as arrays, and who owns them.

torch_weights.py and paddle_weights.py are twins, line for line.
"""

import warnings

import numpy as np
import paddle
from paddle import nn

from common.sides.paddle_tensors import (
    LAYERS,
    NAME,
    VARIANCE,
    array,
    is_float,
    keeps_unbiased,
    like,
    probed_modules,
    shape,
    to_load,
    view,
)
from common.weights.layers import Owner, layer_kind, why_no_partner


def framework_class(module):
    """The framework's class that a module is or derives from; "" for the model's own."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith(LAYERS) and kind is not nn.Layer:
            return layer_kind(kind)
    return ""


def modules(model):
    """(name, module) of the model, whose name is empty, and of everything in it."""
    return model.named_sublayers(include_self=True)


def owners(model):
    """Key -> Owner of every entry of the state dict; a shared layer's entries have one owner."""
    modules = dict(model.named_sublayers(include_self=True))
    kinds = {name: framework_class(module) for name, module in modules.items()}
    probes = {name for name, _ in probed_modules(model)}
    parameters = {id(parameter) for parameter in model.parameters()}
    first = {}
    found = {}
    for key, value in model.state_dict().items():  # twin: Paddle keeps them
        path, _, local = key.rpartition(".")
        same_as = first.setdefault(id(value), key)
        parts = path.split(".") if path else []
        above = [".".join(parts[:i]) for i in range(len(parts) + 1)]  # the root's name is empty
        if path not in modules and same_as in found:
            found[key] = found[same_as]
            continue
        found[key] = Owner(
            kinds.get(path, ""),
            local,
            shape(value),
            id(value) in parameters,
            same_as,
            tuple(kinds.get(name, "") for name in above[:-1]),
            next((name for name in reversed(above) if name in probes), ""),
            _padding(modules.get(path)),
            local == VARIANCE and keeps_unbiased(modules.get(path)),
            type(modules.get(path)).__name__,
        )
    return found


def _padding(module):
    """The row of an Embedding that is padding; None where there is none."""
    if not isinstance(module, nn.Embedding):
        return None
    row = module._padding_idx  # twin: where it is
    return None if row is None or row < 0 else int(row)


def state(model):
    """The state dict as arrays, aliases of one tensor under each of their names."""
    return {key: array(value) for key, value in model.state_dict().items()}


def load_state(model, arrays):
    """Put the arrays in; the caller has checked that every key is there, and no other.

    A model that loads in a way of its own is given tensors like its own.
    """
    own = model.state_dict()
    plain = _loads_plainly(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array that may only be read is only read
        made = ((key, (to_load if plain else like)(v, own[key])) for key, v in arrays.items())
        if plain and _one_by_one(own, made):
            return
        own.update(made)  # what else it holds, such as versions, stays
        model.set_state_dict(own)


def _one_by_one(own, made):
    """Copy each array in as soon as it is made, if that saves memory; True where it was done."""
    return [own[key].set_value(value) for key, value in made] != []  # twin: views or copies


def _loads_plainly(model):
    """True for a model that loads as the framework does: by copying into what it has."""
    ways = [type(model).set_state_dict]  # twin: what loads
    # It sets every parameter and buffer  # twin: what loads
    # of the model: layers inside it have  # twin: what loads
    # no part in that.  # twin: what loads
    return all(str(getattr(way, "__module__", "")).split(".")[0] == NAME for way in ways)


def unlearned(model):
    """(name, array) of every buffer, and of every parameter that no gradient is wanted for.

    Not a BatchNorm's statistics, which are rows by themselves, nor what one framework alone keeps.
    """
    modules = dict(model.named_sublayers(include_self=True))
    learned = {id(value) for _, value in trainable(model)}
    found = [pair for pair in model.named_parameters() if id(pair[1]) not in learned]
    for name, value in [*found, *model.named_buffers()]:
        path, _, local = name.rpartition(".")
        kind = framework_class(modules[path]) if path in modules else ""
        if value is None or "BatchNorm" in kind:
            continue
        if not why_no_partner(Owner(kind, local, shape(value), False, name)):
            yield name, array(value)


def save_arrays(path, arrays, names):
    """Write the framework's own file of weights: each of `names` under the array that it names."""
    tensors = {key: paddle.to_tensor(values) for key, values in arrays.items()}  # twin: how
    paddle.save({name: tensors[key] for name, key in names.items()}, str(path))


def watch(value):
    """Ask for the gradient of an input, where it is a float; returns the input."""
    if is_float(value):
        value.stop_gradient = False  # twin: the opposite flag
    return value


def trainable(model):
    """(name, parameter) of every parameter that a gradient is wanted for."""
    return [(name, value) for name, value in model.named_parameters() if not value.stop_gradient]


def gradient(parameter):
    """The parameter's gradient as an array; zeros where the loss does not reach it."""
    if parameter.grad is None:
        return np.zeros_like(array(parameter))
    return view(parameter.grad)


def clear_gradients(model):
    """Forget all gradients."""
    for value in model.parameters():
        value.clear_gradient(False)  # twin: an attribute here, a call there


def assign(parameter, values):
    """Overwrite a parameter's values."""
    with paddle.no_grad():
        parameter.copy_(like(values, parameter), False)


def shift(parameter, start, direction, by):
    """Set a parameter to start + by * direction, all of them tensors, and make no other."""
    with paddle.no_grad():
        parameter.copy_(direction, False)
        parameter.scale_(by)  # twin: another name
        parameter.add_(start)


def assign_gradient(parameter, values):
    """Overwrite a parameter's gradient; one that the loss does not reach has none, not zeros."""
    if parameter.grad is None and not np.any(values):
        return
    parameter.grad = like(values, parameter)
