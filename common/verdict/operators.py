"""Operators that a framework computes inexactly in float64: their table, and what proves one.

The table, operators.json, is measured by `python -m tools.operators` on the installed versions.  A
row is CONSTANT only where such an operator is shown to be the cause: with it computed exactly
(common/transplant/exact.py), on the same inputs, the row is ROUNDING.  Where no run could show it,
as for logs of somebody else, the class of the row's module must be in the table, and the difference
that layer built alike on both sides.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from twincheck.common.logs.key import Key, parent_of
from twincheck.common.logs.of_a_run import Logs
from twincheck.common.system.json_file import load_json
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.row import Row
from twincheck.common.verdict.tolerances import tolerance

TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Operator:
    """A line of the table."""

    name: str
    framework: str  # whose operator is inexact: torch or paddle
    keeps: str  # what it does, after the framework's name and its own
    classes: tuple[str, ...]  # Paddle's layers that are made of it
    value: float  # largest difference from the exact result, as a part of its largest value
    gradient: float  # the same of its gradient
    excuses: bool  # whether its difference is one that a row is excused for

    @property
    def sentence(self) -> Reason:
        """What is inexact."""
        framework = self.framework.capitalize()
        return Kind.OPERATOR_KEEPS(framework=framework, operator=self.name, keeps=self.keeps)


@lru_cache(maxsize=1)
def table() -> dict[str, Operator]:
    """Name -> operator, as measured; raises UserError for a table that cannot be read."""
    return read_table(load_json(TABLE))


def read_table(content: Mapping) -> dict[str, Operator]:
    """The operators of a table's JSON."""
    lines = content["operators"].items()
    return {n: Operator(n, **{**line, "classes": tuple(line["classes"])}) for n, line in lines}


def of_class(name: str) -> Operator | None:
    """The operator that a layer of Paddle's is made of; None for a class that is not in the table.

    A model's own class (`own GATConv`) is never one.
    """
    fitting = (line for line in table().values() if line.excuses and name in line.classes)
    return next(fitting, None)


def adam_noise() -> float:
    """How many times noisier Paddle's float32 Adam is than torch's, on the same gradients."""
    return table()["Adam"].value / table()["Adam of torch"].value


class Operators:
    """The inexact operators that the logs of one run have met."""

    def __init__(self, logs: Logs):
        self._found = logs.sidecars["teacher_forced"].inexact
        self._wrong = logs.sidecars["teacher_forced"].wrong

    def of_case(self, key: Key) -> dict[str, dict[str, float]]:
        """Module, without the case's prefix -> its inexact operators, those of the table."""
        found = {
            site[len(key.case) :]: {n: off for n, off in operators.items() if n in table()}
            for site, operators in self._found.items()
            if site.startswith(key.case)
        }
        return {site: operators for site, operators in found.items() if operators}

    def could_be(self, row: Row, key: Key, scale: float) -> bool:
        """True where an operator is far enough off to be worth a run that shows it.

        scale  S of the row's group of tensors
        """
        sizes = [off for operators in self.of_case(key).values() for off in operators.values()]
        reach = tolerance("operator_reach") * max(sizes, default=0.0)
        near = row.gap is not None and row.gap <= reach * max(row.scale or 0.0, scale)
        return row.verdict == "CONSTANT" or near

    def nearest(self, key: Key) -> dict[str, float]:
        """The inexact operators of the row's module, or of the nearest one around it that has any.

        Where none has, all of the case's: they came with what it was fed.
        """
        found = self.of_case(key)
        site = _nearest(key, found)
        return dict(found[site]) if site in found else _anywhere(found)

    def wrong_at(self, key: Key) -> list[Reason]:
        """Return what an operator of the row's module computes otherwise than its definition.

        Nothing where none was seen to be wrong.
        """
        part = "gradient" if key.kind else "result"
        found = {site: parts for site, parts in self._wrong.items() if site.startswith(key.case)}
        site = key.case + _nearest(key, {name[len(key.case) :] for name in found})
        name = next((name for name, parts in found.get(site, {}).items() if part in parts), "")
        if not name:
            return []
        wrong = Kind.OPERATOR_WRONG_GRADIENT if key.kind else Kind.OPERATOR_WRONG_RESULT
        lines = load_json(TABLE)["wrong"].get(name, ())
        instead = next((line["instead"] for line in lines if line["instead"]), "")
        shown = wrong(operator=name, off=found[site][name][part])
        return [shown, Kind.WRITE_INSTEAD(code=instead)] if instead else [shown]


def _nearest(key: Key, sites: Collection[str]) -> str:
    """The site of a row's module, or of the nearest one around it that is among these."""
    site = key.site.split("/")[0]
    site = parent_of(site) if key.is_input and not key.kind else site
    while site and site not in sites:
        site = parent_of(site)
    return site


def made_exact(found: Mapping[str, Mapping[str, float]]) -> str:
    """The operators of the table that a run computed exactly, in a sentence; empty for none."""
    return told({name: off for name, off in _anywhere(found).items() if off and name in table()})


def _anywhere(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Operator -> the farthest that it is off in any of the modules."""
    merged: dict[str, float] = {}
    for operators in found.values():
        for name, off in operators.items():
            merged[name] = max(off, merged.get(name, 0.0))
    return merged


def told(found: Mapping[str, float]) -> str:
    """Return the three operators that are farthest off, in words; empty for none."""
    told: str = ""
    for name, off in sorted(found.items(), key=lambda item: -item[1])[:3]:
        one = Kind.OPERATOR_IS_OFF(operator=table()[name].sentence, off=off)
        told = Kind.AND_ALSO(one=told, other=one) if told else one
    return told
