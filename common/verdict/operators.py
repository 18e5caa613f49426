"""Operators that a framework computes inexactly in float64: their table, and what proves one.

The table, operators.json, is measured by `python -m tools.operators` on the installed versions.  A
row is CONSTANT only where such an operator is shown to be the cause: with it computed exactly
(common/transplant/exact.py), on the same inputs, the row is ROUNDING.  Where no run could show it,
as for logs of somebody else, the class of the row's module must be in the table, and the difference
no more than was measured of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from common.logs.key import Key, parent_of
from common.system.json_file import load_json
from common.verdict.logs_of_a_run import Logs
from common.verdict.row import AGREEING, Row
from common.verdict.tolerances import tolerance

TABLE = Path(__file__).with_suffix(".json")
EXCUSE = "the framework's operator"
LEFT = 0.9  # of a difference: where more of it is left, the operators are not told
_OF_CONSTANTS = (
    "torch computes the same where its constants are rounded to float32, as Paddle keeps an "
    "operator's attributes"
)
_NOT_SHOWN = (
    "as small as a constant kept in float32, but none of Paddle's operators that are known to keep "
    "one is shown to be the cause"
)


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
    epsilon: bool = False  # it keeps nothing but an epsilon, beside the variance, in float32

    @property
    def sentence(self) -> str:
        """What is inexact."""
        return f"{self.framework.capitalize()}'s {self.name} {self.keeps}"


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
    return _of_classes().get(name) if name else None


@lru_cache(maxsize=1)
def _of_classes() -> dict[str, Operator]:
    """Class -> the first operator that excuses and is its."""
    lines = [line for line in table().values() if line.excuses]
    return {name: line for line in reversed(lines) for name in line.classes}


def constant_allowed(operator: Operator | None, key: Key, ref64: Callable) -> float:
    """How far this operator's constant may bring a row, as a part of its scale.

    ref64   (key) -> the reference's float64 value
    """
    usual = tolerance("constant")
    if operator is None or not operator.epsilon or key.local or key.kind:
        return usual
    values = ref64(key.first_input)
    if values is None or values.ndim == 0 or not np.isfinite(values).all():
        return usual
    # Its epsilon is all that is kept: what it weighs against the least variance.
    variance = float(values.var(axis=-1).min())
    epsilon = tolerance("largest_epsilon")
    return min(usual, tolerance("constant_epsilon") * epsilon / (variance + epsilon))


class Evidence:
    """What the logs of one run show of the framework's operators.

    scales   S of each group of tensors
    """

    def __init__(self, logs: Logs, scales: Mapping[str, float]):
        self.logs = logs
        self._scales = scales
        self.found = logs.sidecars["local64"].inexact
        self.asked = False  # a run with exact operators would show more

    def settle(
        self,
        row: Row,
        key: Key,
        class_name: str,
        exact_row: Callable[[], Row | None],
        rounded_row: Callable[[], Row | None] = lambda: None,
    ):
        """Excuse a difference that is an operator's, and none that only could be.

        class_name  of the row's module
        exact_row   judges the same tensor with Paddle's operators computed exactly; None for none
        rounded_row the same beside torch's run with its constants rounded to float32
        """
        constant = row.verdict == "CONSTANT"
        origin = row.verdict == "DIVERGED" and row.origin
        if row.gap is None or row.verdict not in ("CONSTANT", "DIVERGED", "CARRIED"):
            return
        shown, why = False, ""
        if constant or origin:
            shown, why = self._shown(row, key, class_name, exact_row)
        if not shown:
            rounded = rounded_row()
            if rounded is not None and rounded.verdict in AGREEING:
                shown, why = True, _OF_CONSTANTS
        if shown:
            row.verdict, row.excuse = "CONSTANT", EXCUSE
        elif constant:
            row.verdict, row.excuse = "DIVERGED", ""
            why = why or _NOT_SHOWN
        row.add_note(why)

    def _shown(self, row: Row, key: Key, class_name: str, exact_row) -> tuple[bool, str]:
        """Whether a cause is shown, and what is said of it."""
        if "local64" not in self.logs:
            operator = of_class(class_name) if row.verdict == "CONSTANT" else None
            return operator is not None, operator.sentence if operator else ""
        found = self.of_case(key)
        if not found:
            return False, ""
        if "exact64" not in self.logs:
            self.asked |= self.could_be(row, key)
            return False, ""
        exact = exact_row()
        if exact is None:
            return False, ""
        causes = self.nearest(key, found)
        if exact.verdict in AGREEING:
            excused = all(table()[name].excuses for name in causes)
            return excused, f"{told(causes)}; computed exactly, nothing is left of it"
        if exact.gap is None or exact.gap > LEFT * row.gap:
            return False, ""  # they have no part in it that is worth a word
        return False, f"{told(causes)}; computed exactly, {exact.gap:.1e} is left, the port's own"

    def of_case(self, key: Key) -> dict[str, dict[str, float]]:
        """Module, without the case's prefix -> its inexact operators, those of the table."""
        found = {
            site[len(key.case) :]: {n: off for n, off in operators.items() if n in table()}
            for site, operators in self.found.items()
            if site.startswith(key.case)
        }
        return {site: operators for site, operators in found.items() if operators}

    def could_be(self, row: Row, key: Key) -> bool:
        """True where an operator is far enough off to be worth a run that shows it."""
        sizes = [off for operators in self.of_case(key).values() for off in operators.values()]
        reach = tolerance("operator_reach") * max(sizes, default=0.0)
        scale = max(row.scale or 0.0, self._scales.get(key.group, 0.0))
        near = row.gap is not None and row.gap <= reach * scale
        return row.verdict == "CONSTANT" or near

    def nearest(self, key: Key, found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """The inexact operators of the row's module, or of the nearest one around it that has any.

        Where none has, all of the case's: they came with what it was fed.
        """
        site = key.site.split("/")[0]
        site = parent_of(site) if key.is_input and not key.kind else site
        while site and site not in found:
            site = parent_of(site)
        if site in found:
            return dict(found[site])
        return _anywhere(found)


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
    """Operators in a sentence, the largest difference first."""
    largest = sorted(found.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{table()[name].sentence} ({off:.1e})" for name, off in largest)
