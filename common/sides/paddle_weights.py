"""Weights and gradients of a model of this side, in and out as arrays, and who owns them.

torch_weights.py and paddle_weights.py are twins, line for line.
"""

import numpy as np
import paddle
from paddle import nn

from common.sides.paddle_tensors import array, is_float, like, shape
from common.weights.layers import Owner, why_no_partner


def framework_class(module):
    """The framework's class that a module is or derives from; "" for the model's own."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith("paddle.nn") and kind is not nn.Layer:
            return kind.__name__
    return ""


def owners(model):
    """Key -> Owner of every entry of the state dict; a shared layer's entries have one owner."""
    modules = dict(model.named_sublayers(include_self=True))
    modules = dict(model.named_sublayers(include_self=True))
    found = list(model.named_buffers())
    learned = {id(value) for _, value in trainable(model)}
    found += [pair for pair in model.named_parameters() if id(pair[1]) not in learned]
    for name, value in found:
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
    return array(parameter.grad)


def clear_gradients(model):
    """Forget all gradients."""
    for value in model.parameters():
        value.clear_gradient(False)  # twin: an attribute here, a call there


def assign(parameter, values):
    """Overwrite a parameter's values."""
    with paddle.no_grad():
        parameter.copy_(like(values, parameter), False)


def assign_gradient(parameter, values):
    """Overwrite a parameter's gradient; one that the loss does not reach has none, not zeros."""
    if parameter.grad is None and not np.any(values):
        return
    parameter.grad = like(values, parameter)
