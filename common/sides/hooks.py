"""Hooks on a module's inputs, also where the framework's own see fewer, and on its outputs."""

import functools
from collections.abc import Callable
from contextlib import contextmanager


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
    """The same round `forward` itself: hooks of Paddle 2.6 are not shown the keywords."""

    def __init__(self, module, before: Callable):
        self.module = module
        self.own = vars(module).get("forward")  # a forward that somebody else put there
        forward = module.forward

        @functools.wraps(forward)
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
