"""The modules of a model of this side and their calls: torch_structure.py and paddle_structure.py
are twins; structure.py says what for."""

from contextlib import contextmanager

from common.sides import structure
from common.sides.hooks import hook_inputs


def answer(job):
    """See structure.py."""
    structure.answer(job, modules, recording)


def modules(model):
    """(name, module) of every module, the model itself first."""
    return list(model.named_modules())


@contextmanager
def recording(model, seen):
    """Inside, `seen` is told of every call of a module of the model, but the model's own."""
    handles, running = [], []

    for name, module in modules(model):
        if name == "":
            continue

        def before(module, inputs, keywords, name=name):
            call, given = seen.begin(name, (inputs, keywords))
            running.append(call)
            return given

        def after(module, inputs, outputs):
            return seen.end(running.pop(), outputs)

        handles.append(hook_inputs(module, before))
        handles.append(module.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
