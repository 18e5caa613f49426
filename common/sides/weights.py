"""Weights and gradients of a model of a side, in and out as arrays, and who owns them."""

import warnings

import numpy as np

from twincheck.common.weights.layers import Owner, layer_kind, why_no_partner


def framework_class(side, module):
    """The framework's class that a module is or derives from; "" for the model's own."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith(side.LAYERS) and kind is not side.MODULE:
            return layer_kind(kind)
    return ""


def owners(side, model):
    """Key -> Owner of every entry of the state dict; a shared layer's entries have one owner."""
    modules = dict(side.modules(model))
    kinds = {name: side.framework_class(module) for name, module in modules.items()}
    probes = {name for name, _ in side.probed_modules(model)}
    parameters = {id(parameter) for parameter in model.parameters()}
    first = {}
    found = {}
    for key, value in side.entries(model):
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
            side.shape(value),
            id(value) in parameters,
            same_as,
            tuple(kinds.get(name, "") for name in above[:-1]),
            next((name for name in reversed(above) if name in probes), ""),
            _padding(side, modules.get(path)),
            local == side.VARIANCE and side.keeps_unbiased(modules.get(path)),
            type(modules.get(path)).__name__,
        )
    return found


def _padding(side, module):
    """The row of an Embedding that is padding; None where there is none."""
    if not isinstance(module, side.lib.nn.Embedding):
        return None
    row = getattr(module, side.PADDING_ROW)
    return None if row is None or row < 0 else int(row)


def state(side, model):
    """The state dict as arrays, aliases of one tensor under each of their names."""
    return {key: side.array(value) for key, value in model.state_dict().items()}


def load_state(side, model, arrays):
    """Put the arrays in; the caller has checked that every key is there, and no other.

    A model that loads in a way of its own is given tensors like its own.
    """
    own = model.state_dict()
    # Whether it loads as the framework does: by copying into what it has.
    ways = (str(getattr(way, "__module__", "")) for way in side.ways_to_load(model))
    plain = all(way.split(".")[0] == side.NAME for way in ways)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array that may only be read is only read
        make = side.to_load if plain else side.like
        made = ((key, make(values, own[key])) for key, values in arrays.items())
        if plain and side.COPIES_TO_LOAD:  # each as soon as it is made
            for key, value in made:
                own[key].set_value(value)
            return
        own.update(made)  # what else it holds, such as versions, stays
        getattr(model, side.LOAD)(own)


def unlearned(side, model):
    """(name, array) of every buffer, and of every parameter that no gradient is wanted for.

    Not a BatchNorm's statistics, which are rows by themselves, nor what one framework alone keeps.
    """
    modules = dict(side.modules(model))
    learned = {id(value) for _, value in side.trainable(model)}
    found = [pair for pair in model.named_parameters() if id(pair[1]) not in learned]
    for name, value in [*found, *model.named_buffers()]:
        path, _, local = name.rpartition(".")
        kind = side.framework_class(modules[path]) if path in modules else ""
        if value is None or "BatchNorm" in kind:
            continue
        if not why_no_partner(Owner(kind, local, side.shape(value), False, name)):
            yield name, side.array(value)


def save_arrays(side, path, arrays, names):
    """Write the framework's own file of weights: each of `names` under the array that it names."""
    tensors = {key: side.from_array(values) for key, values in arrays.items()}
    side.lib.save({name: tensors[key] for name, key in names.items()}, str(path))


def watch(side, value):
    """Ask for the gradient of an input, where it is a float; returns the input."""
    if side.is_float(value):
        side.want_gradient(value)
    return value


def trainable(side, model):
    """(name, parameter) of every parameter that a gradient is wanted for."""
    return [(name, value) for name, value in model.named_parameters() if side.wants_gradient(value)]


def gradient(side, parameter):
    """The parameter's gradient as an array; zeros where the loss does not reach it."""
    if parameter.grad is None:
        return np.zeros_like(side.array(parameter))
    return side.view(parameter.grad)


def clear_gradients(side, model):
    """Forget all gradients."""
    for value in model.parameters():
        side.forget_gradient(value)


def assign(side, parameter, values):
    """Overwrite a parameter's values."""
    with side.no_grad():
        parameter.copy_(side.like(values, parameter), False)


def shift(side, parameter, start, direction, by):
    """Set a parameter to start + by * direction, all of them tensors, and make no other."""
    with side.no_grad():
        parameter.copy_(direction, False)
        side.scale_(parameter, by)
        parameter.add_(start)


def assign_gradient(side, parameter, values):
    """Overwrite a parameter's gradient; one that the loss does not reach has none, not zeros."""
    if parameter.grad is None and not np.any(values):
        return
    parameter.grad = side.like(values, parameter)
