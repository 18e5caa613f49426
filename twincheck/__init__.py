"""Prove that a PaddlePaddle port of a PyTorch model is the same model; where not, find the line.

    result = twincheck.check(torch_model, paddle_model, {"x": x})           two live models
    twincheck.assert_aligned(torch_model, paddle_model, {"x": x})           the same, in a test
    from twincheck import choose, named                                     in a model's own file

In a checkout the modules stand in the folders beside this one, in an installed package below it;
their names are the same: twincheck.common, twincheck.step1_forward, …  Nothing of that is imported
here, and no framework: both calls are made in a process that has models of its own.
"""

import functools
import importlib
import os

HERE = os.path.dirname(os.path.abspath(__file__))
IN_A_CHECKOUT = not os.path.isdir(os.path.join(HERE, "common"))
__path__ = [HERE, os.path.dirname(HERE)] if IN_A_CHECKOUT else [HERE]


# What models may use (twincheck/torch_side.py, twincheck/paddle_side.py), whichever side they are.
OF_MODELS = (
    *("choose", "choose_order", "choose_top_k", "draw_integers", "draw_normal", "dropout"),
    *("named", "tap", "cross_entropy", "regression_loss"),
)


def __getattr__(name):
    if name in ("check", "assert_aligned", "NotChecked", "Result"):
        return getattr(importlib.import_module(f"{__name__}.extras.live.calls"), name)
    if name in OF_MODELS:
        return functools.partial(_of_side, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _of_side(name, *arguments, **options):
    """Call a function of the side whose model or tensor is among the arguments."""
    for value in (*arguments, *options.values()):
        for base in type(value).__mro__:
            side = base.__module__.partition(".")[0]
            if side in ("torch", "paddle"):
                own = importlib.import_module(f"{__name__}.{side}_side")
                return getattr(own, name)(*arguments, **options)
    from twincheck.common.system.reasons import Kind

    raise TypeError(Kind.SIDE_OF_NOTHING(name=name))
