"""Probes on a model: what each module was given and gave, recorded or replaced."""

import math
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial, wraps

from twincheck.common.logs.sidecar import IN_PLACE, IN_WORDS, OWN
from twincheck.common.sides.session import current
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import tree_map

_ATTENTION = "multiheadattention"  # in small letters: each framework has its own
_FULL = ("float32", "float64", "complex64", "complex128")


def join_site(site, name):
    """Path of a name inside a site; the root module's site is empty."""
    return f"{site}.{name}" if site else name


def with_values(side, value, values):
    """The tensor with these values (an array) in its own's place; the gradient goes through.

    Paddle ignores what a hook returns on a PyLayer's own output: hence the 1.
    """
    return _replacement(side).apply(value, side.like(values, value)) * 1.0


@cache
def _replacement(side):
    class Replacement(side.FUNCTION):
        @staticmethod
        def forward(ctx, value, reference):
            return reference.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    return Replacement


def observe(side, session, label, value, class_name="", replace=True):
    """Record one probe; in teacher forcing return the reference's value in its place.

    Without `replace` the tensor itself comes back, and its gradient is that of all its uses.
    """
    if not side.is_tensor(value):
        return value
    key = session.prefix + label
    if not session.recomputing:
        session.record(key, side.view(value))
        session.note_place(key, class_name)
    if class_name.endswith(IN_PLACE):
        return value
    reference = None if session.reference is None else session.reference.get(key)
    if side.is_float(value) and str(value.dtype).rpartition(".")[2] not in _FULL:
        session.half = True
    replaced = reference is not None and tuple(reference.shape) == side.shape(value)
    if not side.is_float(value):
        return side.like(reference, value) if replaced else value
    differentiable = session.gradients and side.wants_gradient(value) and side.lib.is_grad_enabled()
    if replaced:
        value = with_values(side, value, reference)
    elif differentiable and replace:
        # A tensor of its own: the gradient is this use's, not that of a residual beside it.
        value = value.clone()
    if differentiable:
        value.register_hook(lambda gradient: _observe_gradient(side, session, label, gradient))
    return value


def _observe_gradient(side, session, label, gradient):
    """Record the gradient at a probe; in teacher forcing return the reference's in its place.

    Where a model or loss differentiates by itself, as for a penalty on a gradient, the hook
    also runs then: those gradients are parts of the forward pass, the loss's alone is a row.
    """
    key = f"{session.prefix}grad_of/{label}"
    if not session.in_backward or key in session.gradient_keys:
        return gradient
    session.gradient_keys.add(key)
    session.record(key, side.view(gradient))
    session.seen.places.setdefault(key, session.seen.places.get(session.prefix + label, ""))
    session.seen.classes.setdefault(key, session.seen.classes.get(session.prefix + label, ""))
    reference = None if session.reference is None else session.reference.get(key)
    if reference is None or tuple(reference.shape) != side.shape(gradient):
        return gradient
    return side.like(reference, gradient)


def _observe_nested(side, session, site, values, class_name, replace=True):
    """Record every tensor of a module's inputs or outputs; returns the same structure.

    A first element has its container's own name: `name`, `name/1`, ...
    """

    def change(path, value):
        label = session.label("/".join([site, *(str(key) for key in path if key != 0)]))
        return observe(side, session, label, value, class_name, replace)

    return tree_map(values, change, side.is_tensor)


def _is_attention(side, module):
    """True for the framework's attention, or a class that derives from it."""
    kinds = (k for k in type(module).__mro__ if k.__module__.startswith(side.LAYERS))
    return any(kind.__name__.lower() == _ATTENTION for kind in kinds)


def _works_in_place(side, module, session):
    """True for a module that writes into its own input, as ReLU(inplace=True) does.

    Its tensors must stay what they are, or the writing would be lost on whoever else holds
    them; in teacher forcing everyone is given the reference's values anyway.
    """
    told = getattr(module, "inplace", False) or getattr(module, "_inplace", False)
    return bool(told) and (session.reference is None or session.partly)


def _observe_inputs(side, session, name, kind, module, inputs, keywords):
    """Record a module's inputs: `name:in/0` by place, `name:in/KEYWORD` by keyword.

    Of a keyword of the framework's own layers only floats, since masks mean other things there.
    No gradient is asked for at what is written into in place: other uses would be in it.
    """
    kind = f"{kind} {IN_PLACE}" if _works_in_place(side, module, session) else kind

    def seen(key, value):
        return _observe_nested(side, session, f"{name}:in/{key}", value, kind)

    placed, attends = [], _is_attention(side, module)
    for i, value in enumerate(inputs):
        same = [k for k in range(i) if inputs[k] is value] if attends else []
        placed.append(placed[same[0]] if same else seen(i, value))
    logged = {
        key: seen(key, value)
        for key, value in keywords.items()
        if side.is_float(value) or not side.of_framework(module)
    }
    return tuple(placed), {**keywords, **logged}


@contextmanager
def probing(side, model):
    """Log the inputs (`name:in/0`) and outputs (`name`) of every probed module while it runs.

    A module that the session's selection leaves out has no hook.
    Attention's keys and values are left out where they are an earlier argument (Paddle's may be
    left out by the caller too), and so are its weights (a mean over heads on one side alone).
    """
    session = current()
    hooks = []
    for name, module in side.probed_modules(model):
        if not (session.probing and session.selection.takes(session.rename(name))):
            continue
        kind = type(module).__name__
        kind = kind if side.of_framework(module) else f"{OWN} {kind}"
        settings = settings_of(module, side.NAME) if side.of_framework(module) else {}
        session.note_layer(session.prefix + session.rename(name), settings, module)

        def before(module, inputs, keywords, name=name, kind=kind):
            if not session.probing:
                return None
            return _observe_inputs(side, session, name, kind, module, inputs, keywords)

        def after(module, inputs, outputs, name=name, kind=kind):
            if not session.probing:
                return None
            shown, put_back = _results(side, module, outputs)
            replace = not _works_in_place(side, module, session)
            session.selection.saw(session.rename(name))
            with session.at(None if side.of_framework(module) else type(module).forward):
                return put_back(_observe_nested(side, session, name, shown, kind, replace))

        hooks.append((module, before, after))
    with hooked(hooks):
        yield
    if session.probing:
        session.selection.refuse_unseen()


def _results(side, module, outputs):
    """Return what a probe shows of a module's outputs, and what puts that back among them."""
    if _is_attention(side, module) and isinstance(outputs, tuple):
        return outputs[0], lambda seen: (seen, *outputs[1:])
    if isinstance(module, side.CELLS):
        states = outputs[1]  # the output is the first of them
        return states, lambda seen: (seen[0] if isinstance(seen, tuple) else seen, seen)
    return outputs, lambda seen: seen


def fix_recurrent_dropout(side, model, training):
    """Put recurrent layers in train mode with dropout 0 in every mode.

    In eval mode Paddle cannot differentiate them on CPU ("holder_ should not be null"), and
    what they draw inside is not on the tape.  In training their rate is a row of the log.
    """
    for name, module in side.modules(model):
        if isinstance(module, side.RECURRENT):
            rate, module.dropout = float(module.dropout), 0.0
            module.training = True
            if training:
                # Whenever it runs, its dropout, which is not drawn, is logged.
                module.register_forward_pre_hook(partial(_log_rate, side, name, rate))


def _log_rate(side, name, rate, module, inputs):
    session = current()
    if session.probing:
        observe(side, session, session.label(f"{name}:p"), side.tensor(rate))


# ---- a module's inputs, also where the framework's own hooks see fewer, and its outputs ---------


def hook_inputs(module, before: Callable):
    """Call `before(module, inputs, keywords)` ahead of each call; returns a handle to `remove()`.

    Where it returns (inputs, keywords), the module gets these.
    """
    try:
        return module.register_forward_pre_hook(before, with_kwargs=True)
    except TypeError:
        return _Wrapped(module, before)


def hook_outputs(module, after: Callable):
    """Call `after(module, inputs, outputs)` behind each call; returns a handle to `remove()`."""
    register = getattr(module, "register_forward_post_hook", None)  # Paddle's name for it
    return (register or module.register_forward_hook)(after)


@contextmanager
def hooked(hooks):
    """Inside, each (module, before, after) of these is asked on inputs and told of outputs."""
    handles = []
    for module, before, after in hooks:
        handles += [hook_inputs(module, before), hook_outputs(module, after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Wrapped:
    """A hook round `forward` itself: Paddle 2.6 does not show its hooks the keywords."""

    def __init__(self, module, before: Callable):
        self.module = module
        self.own = vars(module).get("forward")  # a forward that somebody else put there
        forward = module.forward

        @wraps(forward)
        def with_hook(*inputs, **keywords):
            changed = before(module, inputs, keywords)
            inputs, keywords = (inputs, keywords) if changed is None else changed
            return forward(*inputs, **keywords)

        vars(module)["forward"] = with_hook  # past a __setattr__ of the model's own

    def remove(self) -> None:
        """Put back what was there."""
        if self.own is None:
            vars(self.module).pop("forward")
        else:
            vars(self.module)["forward"] = self.own


# ---- how a layer was built -----------------------------------------------------------------------


# What a sentence calls a setting -> where torch's layers keep it, and where Paddle's do.
_KEPT = {
    "epsilon": ("eps", "_epsilon"),
    "momentum": ("momentum", "_momentum"),
    "rate": ("p", "p"),
    Kind.SETTING_NUMBER_OF_GROUPS(): ("num_groups", "_num_groups"),
    "groups": ("groups", "_groups"),
    Kind.SETTING_NEGATIVE_SLOPE(): ("negative_slope", "_negative_slope"),
    "alpha": ("alpha", "_alpha"),
    "beta": ("beta", "_beta"),
    "threshold": ("threshold", "_threshold"),
    Kind.SETTING_TANH_FORM(): ("approximate", "_approximate"),
    Kind.SETTING_PADDING_MODE(): ("padding_mode", "_padding_mode"),
}
_SPELT = {"none": "off", "tanh": "on", False: "off", True: "on"}


def settings_of(module: object, side: str) -> dict[str, float]:
    """The settings that a layer of one side's framework has; plain numbers from 0 alone."""
    own = vars(module)
    found = {}
    for name, places in _KEPT.items():
        value = own.get(places[side == "paddle"])
        if isinstance(value, str | bool):
            told, known = _SPELT.get(value, value), IN_WORDS.get(name, ())
            value = known.index(told) if told in known else None
        if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value < 1e12):
            continue
        if name == "momentum" and side == "paddle":
            value = 1.0 - value  # of the running statistics: torch's is the new batch's part
        found[name] = float(value)
    return found
