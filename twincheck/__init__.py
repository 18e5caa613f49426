"""Prove that a PaddlePaddle port of a PyTorch model is the same model; where not, find the line.

    result = twincheck.check(torch_model, paddle_model, {"x": x})           two live models
    twincheck.assert_aligned(torch_model, paddle_model, {"x": x})           the same, in a test
    from twincheck import choose, named                                     in a model's own file

In a checkout the modules stand in the folders beside this one, in an installed package below it;
their names are the same: twincheck.common, twincheck.step1_forward, …  Nothing of that is imported
here, and no framework: both calls are made in a process that has models of its own.
"""

import importlib
import os

HERE = os.path.dirname(os.path.abspath(__file__))
IN_A_CHECKOUT = not os.path.isdir(os.path.join(HERE, "common"))
__path__ = [HERE, os.path.dirname(HERE)] if IN_A_CHECKOUT else [HERE]


def __getattr__(name):
    """What a model's file takes, of the side whose process this is (twincheck/torch_side.py)."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from twincheck.common.sides.session import side_of_process

    return getattr(importlib.import_module(f"{__name__}.{side_of_process()}_side"), name)
