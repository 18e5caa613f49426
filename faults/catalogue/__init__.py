"""The catalogue of planted faults: realistic mistakes of a port, each with the row that names it.

    python -m faults.run --list      lists them

A table a file.  What stands above its first `[[fault]]` holds for all of them, unless one says
otherwise; the fields are those of Fault (faults/fault.py).  A fault that changes a text and names
no file changes its model's Paddle side; `after` is a function of after.py.
"""

import tomllib
from dataclasses import fields
from pathlib import Path

from faults.catalogue import after
from faults.fault import MODELS, Fault

TABLES = (
    *("fastformer", "fast_transformer", "informer", "reformer", "text_classifier", "training"),
    *("large_models", "pipeline", "users", "half_precision", "hard_pairs", "generation"),
    "reported",
)
_KNOWN = {field.name for field in fields(Fault)}


def table(name: str) -> list[Fault]:
    """The faults of one file; raises ValueError for a fault that is not written as one."""
    path = Path(__file__).with_name(f"{name}.toml")
    usual = tomllib.loads(path.read_text(encoding="utf-8"))
    return [_fault(usual | one, path.name) for one in usual.pop("fault")]


def _fault(told: dict, name: str) -> Fault:
    unknown = told.keys() - _KNOWN
    if unknown:
        raise ValueError(f"{name}, {told.get('id')}: no fault has {', '.join(sorted(unknown))}")
    values = {key: tuple(value) if type(value) is list else value for key, value in told.items()}
    if "old" in values and "file" not in values:
        model = values["model"]
        folder = model if "/" in model else f"{MODELS}/{model}"
        values["file"] = f"{folder}/paddle_model.py"
    if "after" in values:
        values["after"] = getattr(after, values["after"])
    return Fault(**values)


FAULTS = [fault for name in TABLES for fault in table(name)]
