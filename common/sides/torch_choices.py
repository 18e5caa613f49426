"""Discrete choices of any model, in the ledger: torch_choices.py and paddle_choices.py are twins.

    patch()   once in a process, before a model's file is imported

A model's own argmax, argmin, topk, sort and argsort of floats are then recorded with their scores
and margins, and go on with the reference's choice, as if the model had called `choose`
(common/verdict/choices.py says why).  Each has the name of the module that runs: `encoder.topk`.
What only one side calls is passed over: its results are judged where they are used.
"""

import torch

from common.logs.sidecar import CHOICE
from common.sides.session import current
from common.sides.torch_side import NAME, enter_choice, is_float
from common.system.aliases import under_its_names

_WITH_INDICES = True  # twin: what sort returns
_original = {}


def patch():
    """Put the ledger behind this framework's functions and its tensors' methods."""
    if _original:
        return
    functions = {
        "argmax": _argmax,
        "argmin": _argmin,
        "topk": _topk,
        "argsort": _argsort,
        "sort": _sort,
    }
    for name, function in functions.items():
        function = under_its_names(function, NAME)
        _original[name] = getattr(torch, name)
        setattr(torch, name, function)
        setattr(torch.Tensor, name, function)


def _watched(value):
    """True where a choice among these values can depend on rounding, and is looked at."""
    session = current()
    watched = session.record is not None or session.forced is not None
    return watched and is_float(value) and value.ndim > 0 and 0 not in value.shape


def _settled(kind, scores, choice, axis, sign=1.0):
    """Enter a choice in the ledger; what to go on with.

    The choice's own axis, where it has one, is the scores' `axis`, here and in what comes back.
    """
    site = current().site_of_draw()
    label = current().label(f"{site}.{kind}" if site else kind)
    scores = (scores.detach() * sign).moveaxis(axis, -1)
    if choice.ndim < scores.ndim:
        return enter_choice(label, scores, choice, CHOICE)
    return enter_choice(label, scores, choice.moveaxis(axis, -1), CHOICE).moveaxis(-1, axis)


# ---- the functions, with their framework's own arguments -----------------------------------------


def _argmax(input, dim=None, keepdim=False, **rest):  # twin: arguments
    return _extreme("argmax", 1.0, input, dim, keepdim, rest)  # twin: arguments


def _argmin(input, dim=None, keepdim=False, **rest):  # twin: arguments
    return _extreme("argmin", -1.0, input, dim, keepdim, rest)  # twin: arguments


def _topk(input, k, dim=-1, largest=True, sorted=True, **rest):  # twin: arguments
    return _largest(input, k, dim, largest, sorted, rest)  # twin: arguments


def _argsort(input, dim=-1, descending=False, stable=False, **rest):  # twin: arguments
    return _ordered(input, dim, descending, stable, rest)  # twin: arguments


def _sort(input, dim=-1, descending=False, stable=False, **rest):  # twin: arguments
    return _sorted(input, dim, descending, stable, rest)  # twin: arguments


# ---- what they share ----------------------------------------------------------------------------


def _extreme(kind, sign, value, axis, keepdim, rest):
    """An argmax (sign 1) or argmin (sign -1)."""
    if rest or not _watched(value):
        return _original[kind](value, axis, keepdim, **rest)
    if axis is None:  # of all values
        choice = _extreme(kind, sign, value.reshape([-1]), 0, False, {})
        return choice.reshape([1] * value.ndim) if keepdim else choice
    choice = _settled(kind, value, _original[kind](value, axis), axis, sign)
    return choice.unsqueeze(axis) if keepdim else choice


def _largest(value, k, axis, largest, in_order, rest):
    """A topk: values and indices."""
    plain = _original["topk"](value, k, axis, largest, in_order, **rest)
    if rest or not _watched(value):
        return plain
    values, choice = plain
    if not in_order:  # an order all the same, so that two can be compared
        order = _original["argsort"](values, dim=axis, descending=largest)
        choice = torch.take_along_dim(choice, order, dim=axis)
    choice = _settled("topk", value, choice, axis, 1.0 if largest else -1.0)
    values = torch.take_along_dim(value, choice, dim=axis)
    return type(plain)((values, choice))  # twin: how it is made


def _also(stable):
    """The argument that asks for a stable sort, which Paddle 2.6 does not know."""
    return {"stable": True} if stable else {}


def _ordered(value, axis, descending, stable, rest):
    """An argsort: indices."""
    choice = _original["argsort"](value, dim=axis, descending=descending, **_also(stable), **rest)
    if rest or not _watched(value):
        return choice
    return _settled("argsort", value, choice, axis, 1.0 if descending else -1.0)


def _sorted(value, axis, descending, stable, rest):
    """A sort: values and, in torch alone, indices."""
    plain = _original["sort"](value, dim=axis, descending=descending, **_also(stable), **rest)
    if rest or not _watched(value) or not _WITH_INDICES:
        return plain
    choice = _settled("argsort", value, plain[1], axis, 1.0 if descending else -1.0)
    values = torch.take_along_dim(value, choice, dim=axis)
    return torch.return_types.sort((values, choice))  # twin: never reached in Paddle
