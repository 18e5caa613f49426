"""The one table of tolerances, tolerances.toml: every number of the verdict, and its reason."""

import tomllib
from pathlib import Path
from typing import NamedTuple


class Tolerance(NamedTuple):
    """A number of the rule, why it is what it is, and what was measured."""

    value: float
    reason: str
    measured: str


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TOLERANCES = {name: Tolerance(**line) for name, line in _TABLE.items()}


def tolerance(name: str) -> float:
    """Return a number of the rule."""
    return TOLERANCES[name].value
