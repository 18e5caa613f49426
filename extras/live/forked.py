"""What a fork of the caller does: a worker's module, as its own Python would run it."""

import atexit
import gc
import importlib
import runpy
import sys
import warnings
from collections.abc import Mapping
from importlib.abc import MetaPathFinder

from twincheck.extras.live import Kind, cells, held


def run(asked: Mapping) -> None:
    """Run the module that a check asks for: -W ignore -m MODULE ARGUMENT…"""
    module, *words = asked["arguments"][3:]
    atexit._clear()  # what the caller is to do at its end
    side = "torch" if ".torch." in module else "paddle"
    framework = importlib.import_module(side)
    if side == "torch":
        # Its threads were not forked: with more than one, its first operator would wait for them.
        framework.set_num_threads(1)
        # Nor was what it has of a GPU, which cannot be had a second time.
        framework.cuda.is_available, framework.cuda._lazy_init = (lambda: False), _no_gpu
    _hide("paddle" if side == "torch" else "torch")
    # pytest's, which rewrites what it imports for asserts and cannot give a module's code.
    sys.meta_path[:] = [f for f in sys.meta_path if "_pytest" not in type(f).__module__]
    warnings.simplefilter("ignore")  # as a worker has it: the caller's may be errors
    gc.enable()
    cells.rename(held.CELLS)
    sys.modules.pop(module, None)  # where the caller has it, by another finder
    sys.argv[:] = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _no_gpu():
    """Refuse a model that asks for a GPU by its name."""
    raise RuntimeError(Kind.GPU_MISSING())


class Hidden(MetaPathFinder):
    """Lets no import find a framework: a side's result is to come from its own alone."""

    def __init__(self, framework: str):
        self.framework = framework

    def find_spec(self, fullname: str, path=None, target=None) -> None:
        """None for all else, which other finders find."""
        if fullname.partition(".")[0] == self.framework:
            said = Kind.OTHER_SIDES_FRAMEWORK(framework=self.framework)
            raise ModuleNotFoundError(said, name=self.framework)


def _hide(framework: str) -> None:
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{framework}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, Hidden(framework))
    importlib.import_module("twincheck.common.sides.model_file").forked.append(framework)
