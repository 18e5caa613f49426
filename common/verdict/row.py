"""A row of the table: one tensor's verdict and the numbers that it was read from."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.system.reasons import Kind, read_reason, reasons_json

# From harmless to worst.
SEVERITY = (
    *("IDENTICAL", "ROUNDING", "INSIDE", "CLOSE", "FLIP", "CONSTANT"),
    *("CARRIED", "UNDECIDED", "PRECISION", "DIVERGED", "INVALID"),
)

AGREEING = ("IDENTICAL", "ROUNDING")  # the same function, with nothing to be said of it
HARMLESS = (*AGREEING, "INSIDE", "FLIP", "CLOSE")  # nothing that is to be traced to where it starts
# What a row's `fed` says of the run that is fed torch's values: it decided; it did, though this
# value's module could not be fed; there is none of a large model's optimizer step.
FED, NOT_FED, NO_STEP = "yes", "no", "no step"
# What a row's `proof` says of the run that shows a framework's operator to be the cause.
OF_OPERATORS, OF_CONSTANTS = "exact operators", "rounded constants"
# What a row's `unlike` says: why its arrays could not be compared.
SHAPES, NAN_ALIKE = "shape", "NaN alike"
# What a row's `shows_nothing` says of a gradient whose agreement shows nothing.
ALL_ZERO, NOISE_ONLY, ONE_VALUE = "all zero", "noise", "constant"
# CARRIED too: what is off is off, whatever was said of what lies before it.  Where that is shown to
# make all of it, the row is CONSTANT (common/verdict/inside.py: `settle_carried`).
FAILING = ("CARRIED", "UNDECIDED", "PRECISION", "DIVERGED", "INVALID")


@dataclass(slots=True)
class Row:
    """The verdict of one tensor, and the numbers that it was read from (None: undefined)."""

    key: str
    verdict: str
    mean_abs: float | None = None  # of float32 torch - paddle
    max_abs: float | None = None
    difference: float | None = None  # rms(torch - paddle) of float32, as a part of the size
    noise: float | None = None  # what rounding makes of torch's, as a part of the size
    measured: bool = False  # that noise was measured, and is not torch's one run's
    guide_passed: bool | None = None
    gap: float | None = None  # g
    noise_ref: float | None = None  # n_t
    noise_cand: float | None = None  # n_p
    scale: float | None = None  # s
    allowed: float | None = None  # what was allowed for what decided
    measure: str = ""  # what decided: rms, max, mean or count
    capped: bool = False  # the noise was above the cap, so that it did not excuse all it could
    sample: int | None = None  # the sample that decided; None: the whole tensor
    worst_index: tuple[int, ...] | None = None  # of a row that does not pass
    worst_ref: float | None = None
    worst_cand: float | None = None
    beyond: int | None = None  # number of elements beyond what was allowed
    of_sums: int = 0  # how many values the worst one is a sum of, from that place on; 0: of none
    size: int = 0
    shape: tuple[int, ...] = ()
    nans: int = 0  # values that are NaN in every run, and passed by --allow nan
    excuses: tuple[Kind, ...] = ()  # without which it would not have passed
    reasons: tuple[str, ...] = ()  # why it is as it is: Reason, or text of a pair's or an extra's
    fed: str = ""  # FED, NOT_FED or NO_STEP, where an earlier row is off
    proof: str = ""  # OF_OPERATORS or OF_CONSTANTS, of a row that is shown to be the framework's
    repeated: bool = False  # the candidate's run was repeated, and none was exact enough
    by_itself: bool = False  # judged on torch's values in half precision (half.py)
    in_float64: bool = True  # the float64 logs have it, where there are any
    unlike: str = ""  # why it could not be compared: SHAPES, NAN_ALIKE
    other_shape: tuple[int, ...] | None = None  # of the first of its arrays that has another
    shows_nothing: str = ""  # ALL_ZERO, NOISE_ONLY or ONE_VALUE, of a gradient
    origin: bool = False  # what goes wrong starts here
    noise_only: bool = False  # zero in exact arithmetic
    inside: bool = False  # a value inside the model: it locates, and decides nothing
    step: object = ""
    model: str = ""

    @property
    def excuse(self) -> str:
        """The excuses' names, as text."""
        return ", ".join(excuse() for excuse in self.excuses)

    @property
    def is_turned(self) -> bool:
        """True for a value inside that has the same numbers at other places."""
        return self.excuses == (Kind.OTHER_ORDER,)

    @property
    def note(self) -> str:
        """The reasons' sentences."""
        return "; ".join(filter(None, self.reasons))

    def decided(self, verdict: str, *reasons: str, **facts: object) -> "Row":
        """Return the row with another verdict, for these reasons beside its own, and facts."""
        row = copy(self)
        row.verdict, row.reasons = verdict, (*self.reasons, *filter(None, reasons))
        for name, value in facts.items():
            setattr(row, name, value)
        return row

    def __copy__(self) -> "Row":
        return Row(*(getattr(self, name) for name in self.__slots__))

    def add(self, *reasons: str) -> None:
        """Add reasons, those that are not empty."""
        self.reasons = (*self.reasons, *filter(None, reasons))

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; what is undefined is None."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values |= {"excuse": self.excuse, "note": self.note}
        values["excuses"] = [excuse.name for excuse in self.excuses]
        values["reasons"] = reasons_json(self.reasons)
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
            elif isinstance(value, tuple):
                values[name] = list(value)
        return values


def read_row(told: Mapping[str, object]) -> Row:
    """Return a row from its JSON; raises ValueError, TypeError or KeyError for what is none."""
    values = {name: value for name, value in told.items() if name not in ("excuse", "note")}
    for name, value in values.items():
        values[name] = tuple(value) if isinstance(value, list) else value
    values["excuses"] = tuple(Kind[name] for name in values.get("excuses", ()))
    values["reasons"] = tuple(map(read_reason, values.get("reasons", ())))
    return Row(**values)


def claim(key: str, off: float, allowed: float, *reasons: str, beyond: str = "DIVERGED") -> Row:
    """The row of a single claim: something is off by no more than was allowed; NaN is INVALID.

    beyond  the verdict where it is off by more
    """
    verdict = "INVALID"
    if not np.isnan([off, allowed]).any():
        verdict = beyond if off > allowed else "ROUNDING" if off else "IDENTICAL"
    off, allowed, reasons = float(off), float(allowed), tuple(filter(None, reasons))
    row = Row(key, verdict, gap=off, allowed=allowed, size=1, measure="claim", reasons=reasons)
    row.origin = not off <= allowed
    return row


# ---- what rows come to --------------------------------------------------------------------------


def worst(verdicts: Iterable[str]) -> str:
    """The worst of a run's verdicts; INVALID for none."""
    return max(verdicts, key=SEVERITY.index, default="INVALID")


def exit_code(verdicts: Iterable[str], allow: Collection[str] = ()) -> int:
    """0 aligned, 1 not aligned, 2 nothing to compare.  `allow` may hold verdicts."""
    bad = [verdict in FAILING and verdict not in allow for verdict in verdicts]
    return int(any(bad)) if bad else 2


def first_bad_row(rows: Sequence[Row], allow: Collection[str] = ()) -> Row | None:
    """The first row that is not aligned; None where all are.

    One that is CARRIED only where no other is; before it one whose numbers are right but for their
    order, which may be how this side's model has them.  One of an optimizer's later pass, which no
    probe has looked into, only where no gradient that a probe has seen is an origin: a weight may
    start as 1.
    """
    bad = [row for row in rows if exit_code([row.verdict], allow)]
    if bad and bad[0].is_turned:
        seen = [row for row in bad if row.origin and row.fed != NOT_FED]
        bad = [row for row in seen if not row.is_turned] or bad
    first = min(bad, key=lambda row: row.verdict == "CARRIED", default=None)
    if first is not None and Key.parse(first.key).is_own_pass:
        looked_into = (row for row in bad if row.origin and Key.parse(row.key).kind == "grad_of")
        first = next((row for row in looked_into if row.measure != "claim"), first)
    return first


def badness(row: Row) -> tuple[int, float]:
    """By which the worst rows come last: the verdict, then the part of what was allowed."""
    used = share(row) or 0.0
    return SEVERITY.index(row.verdict), used if math.isfinite(used) else math.inf


def worst_row(rows: Sequence[Row], allow: Collection[str] = ()) -> Row | None:
    """The row that fails worst; where none does, the one that used most of what it was allowed.

    Of one that passes for another reason what rounding is allowed says nothing: it comes last.  Nor
    does a witness, which is of one side alone.  None where nothing was measured.
    """
    bad = [row for row in rows if exit_code([row.verdict], allow)]
    if bad:
        return max(bad, key=badness)
    measured = [row for row in rows if share(row) is not None]
    measured = [row for row in measured if "/witness/" not in row.key] or measured
    return max(measured, key=lambda row: (row.verdict in AGREEING, share(row)), default=None)


def share(row: Row) -> float | None:
    """Return the part of what was allowed that a row used; None where nothing was measured."""
    return row.gap / row.allowed if row.gap is not None and row.allowed else None


def count_verdicts(rows: Iterable[Row]) -> dict[str, int]:
    """Count the rows of each verdict that occurs, worst first."""
    return count([row.verdict for row in rows])


def count(verdicts: Sequence[str]) -> dict[str, int]:
    """Count each verdict that occurs, worst first."""
    return {name: verdicts.count(name) for name in reversed(SEVERITY) if name in verdicts}
