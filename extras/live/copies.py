"""Copies of a model that somebody has built: in another precision, with all that belongs to it.

Runs in a fork of the caller, so that nothing here changes the caller's model.  What Python cannot
copy (a lock, an open file, a generator) a copy shares; a function's closure is copied, or a hook
would go on using the first model's weights.
"""

import copy
import copyreg
import types
from collections.abc import Callable, Iterator, Mapping

from twincheck.extras.live import Kind

_CONTAINERS = (list, tuple, set, dict)


class CannotCopy(Exception):
    """The reason why a model cannot be copied, in a sentence."""


class _Reducers(dict):
    """The reducers that copyreg knows; any other class shares what cannot be taken apart."""

    def get(self, kind, default=None):
        """The function that takes an object of a class apart; a text stands for the object."""
        return super().get(kind, _apart_or_shared)


def _apart_or_shared(value: object):
    try:
        return value.__reduce_ex__(4)
    except TypeError:  # "cannot pickle '_thread.lock' object"
        return ""


def _copied_function(function: types.FunctionType, memo: dict) -> types.FunctionType:
    """A function with copies of what its closure holds; itself where it has none."""
    if not function.__closure__:
        return function
    cells = tuple(types.CellType() for _ in function.__closure__)
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    memo[id(function)] = made  # it may be in its own closure
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__dict__.update(function.__dict__)
    for cell, before in zip(cells, function.__closure__, strict=True):
        try:
            cell.cell_contents = copy.deepcopy(before.cell_contents, memo)
        except ValueError:  # an empty cell
            pass
    return made


def copied(model, side):
    """A model like this one, which shares no tensor with it.

    side   torch or paddle, the module
    Raises CannotCopy.
    """
    copy.dispatch_table = _Reducers(copyreg.dispatch_table)  # this process is a fork
    copy._deepcopy_dispatch[types.FunctionType] = _copied_function
    memo = dict(_not_leaves(model, side))
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        said = {"error_type": type(error).__name__, "error": str(error)}
        said |= {"side": side.__name__, "type": type(model).__name__}
        raise CannotCopy(Kind.MODEL_NOT_COPIED(**said)) from error


def _not_leaves(model, side) -> Iterator[tuple[int, object]]:
    """id -> copy of tensors that a graph has made, which a framework refuses to copy."""
    for value in _tensors_of(model, side):
        if not value.is_leaf:
            yield id(value), value.detach().clone()


def _tensors_of(model, side) -> Iterator[object]:
    for module in _modules(model):
        yield from _inside(vars(module), side, set())


def _modules(model) -> list:
    named = model.named_modules() if hasattr(model, "named_modules") else None
    if named is not None:
        return [module for _, module in named]
    return [model, *model.sublayers()]


def _inside(value: object, side, seen: set[int]) -> Iterator[object]:
    """The tensors in containers of Python's own, however they nest."""
    if isinstance(value, side.Tensor):
        yield value
    elif isinstance(value, _CONTAINERS) and id(value) not in seen:
        seen.add(id(value))
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _inside(each, side, seen)


def set_precision(model, side, dtype: str) -> None:
    """Have all floats of a model in one precision, in place: a copy's.

    Those in plain attributes too, which a constructor would have made so.
    dtype   float32 or float64
    """
    if side.__name__ == "torch":
        model.to(getattr(side, dtype))
    else:
        model.to(dtype=dtype)
        for layer in _modules(model):
            layer._dtype = dtype
            if isinstance(layer, side.nn.layer.rnn.RNNBase):
                layer.flatten_parameters()  # its weights are parts of one, which `to` leaves

    is_float = side.is_floating_point
    cast = side.Tensor.to if side.__name__ == "torch" else side.Tensor.astype
    _change(model, side, lambda x: cast(x, getattr(side, dtype)) if is_float(x) else x)


def on_cpu(model, side):
    """The model with all its tensors on the CPU, those in plain attributes too: a copy."""
    model = model.cpu() if side.__name__ == "torch" else model.to(device="cpu")
    _change(model, side, lambda x: x.cpu())
    return model


def _change(model, side, of_tensor: Callable) -> None:
    """Replace the tensors in plain attributes of a model's modules, and in containers there."""

    def changed(value: object) -> object:
        if isinstance(value, side.Tensor):
            return of_tensor(value)
        if type(value) in (list, tuple):
            return type(value)(changed(each) for each in value)
        if type(value) is dict:
            return {name: changed(each) for name, each in value.items()}
        return value

    for module in _modules(model):
        for name, value in list(vars(module).items()):
            if not name.startswith("_"):
                vars(module)[name] = changed(value)
