"""The one table of tolerances, tolerances.json: the numbers of the rule, each with its reason."""

from pathlib import Path
from typing import NamedTuple

from twincheck.common.system.json_file import load_json


class Tolerance(NamedTuple):
    """A number of the rule, why it is what it is, and what was measured."""

    value: float
    reason: str
    measured: str


_TABLE = load_json(Path(__file__).with_suffix(".json"))
TOLERANCES = {name: Tolerance(**line) for name, line in _TABLE.items()}


def tolerance(name: str) -> float:
    """Return a number of the rule."""
    return TOLERANCES[name].value
