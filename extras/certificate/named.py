"""A class that a user names, its configuration, and what its model gives: both sides' own.

The standard library alone, so that either side's Python reads it.
"""

import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

from twincheck.extras.certificate import Kind


class Named(Exception):
    """What is wrong with what the user named, in one sentence."""


def load_class(name: str):
    """The class of `module:Class` or `file.py:Class`; raises Named where there is none."""
    where, _, what = name.rpartition(":")
    if not where or not what.isidentifier():
        raise Named(Kind.CLASS_NAME(name=name))
    try:
        module = _of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except ImportError as error:
        told = {"module": where, "error": " ".join(str(error).split())}
        raise Named(Kind.CLASS_NOT_IMPORTED(name=name, **told)) from None
    try:
        return getattr(module, what)
    except (AttributeError, ImportError):
        raise Named(Kind.CLASS_NOT_THERE(name=name, attribute=what, module=where)) from None


def _of_file(path: Path):
    if not path.is_file():
        raise Named(Kind.CLASS_WITHOUT_FILE(path=str(path)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def configured(Class, settings: Mapping[str, object]):
    """A class's configuration: made by its own `config_class`, where it has one."""
    kind = getattr(Class, "config_class", None)
    config = kind(**settings) if kind else SimpleNamespace(**settings)
    for name, value in settings.items():  # what the constructor does not take
        if value is not None:  # what it makes of that stays
            setattr(config, name, value)
    return config


def logits_of(outputs):
    """The logits among what a model returns: by their name, or the first."""
    if isinstance(outputs, Mapping):
        return outputs["logits"]
    if hasattr(outputs, "logits"):
        return outputs.logits
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def told_errors(main: Callable[[str], None], request_file: str) -> int:
    """Run a side's program; what fails is left beside the request, in one sentence."""
    try:
        main(request_file)
        return 0
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        sentence = error.args[0].as_json() if isinstance(error, Named) else said
        told = {"sentence": sentence, "traceback": traceback.format_exc()}
        Path(request_file).with_suffix(".error").write_text(json.dumps(told))
        return 2
