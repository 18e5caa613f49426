"""A row of the table: one tensor's verdict and the numbers that it was read from."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# From harmless to worst.
SEVERITY = (
    "IDENTICAL",
    "ROUNDING",
    "INSIDE",
    "CLOSE",
    "FLIP",
    "CONSTANT",
    "CARRIED",
    "UNDECIDED",
    "PRECISION",
    "DIVERGED",
    "INVALID",
)

AGREEING = ("IDENTICAL", "ROUNDING")  # the same function, with nothing to be said of it
HARMLESS = (*AGREEING, "INSIDE", "FLIP", "CLOSE")  # nothing that is to be traced to where it starts
FAILING = ("UNDECIDED", "PRECISION", "DIVERGED", "INVALID")

_EXPLAINING = ("CONSTANT", "PRECISION", "FLIP", "CLOSE")  # what a CARRIED row may have above it


@dataclass(slots=True)
class Row:
    """The verdict of one tensor, and the numbers that it was read from (None: undefined)."""

    key: str
    verdict: str
    mean_abs: float | None = None  # of float32 torch - paddle
    max_abs: float | None = None
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
    excuse: str = ""  # names of the excuses without which it would not have passed
    note: str = ""
    origin: bool = False  # what goes wrong starts here
    noise_only: bool = False  # zero in exact arithmetic
    inside: bool = False  # a value inside the model: it locates, and decides nothing
    step: object = ""
    model: str = ""

    def add_note(self, *sentences: str) -> None:
        """Add sentences to the note, those that are not empty."""
        self.note = "; ".join(filter(None, (self.note, *sentences)))

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; what is undefined is None."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
            elif isinstance(value, tuple):
                values[name] = list(value)
        return values


def claim(key: str, off: float, allowed: float, note: str = "", beyond: str = "DIVERGED") -> Row:
    """The row of a single claim: something is off by no more than was allowed; NaN is INVALID.

    beyond  the verdict where it is off by more
    """
    row = Row(key, "INVALID", gap=float(off), allowed=float(allowed), size=1, note=note)
    row.measure, row.origin = "claim", not off <= allowed
    if not np.isnan([off, allowed]).any():
        row.verdict = beyond
        if off <= allowed:
            row.verdict = "ROUNDING" if off else "IDENTICAL"
    return row


# ---- what rows come to --------------------------------------------------------------------------


def worst(verdicts: Iterable[str]) -> str:
    """The worst of a run's verdicts, which are given in the log's order; INVALID for none.

    CARRIED never decides, unless nothing above it explains what it carries.
    """
    deciding, explained = [], False
    for verdict in verdicts:
        if verdict != "CARRIED" or not explained:
            deciding.append(verdict)
        explained |= verdict in _EXPLAINING
    if not deciding:
        return "INVALID"
    top = max(deciding, key=SEVERITY.index)
    return "CARRIED" if "CARRIED" in deciding and top not in FAILING else top


def exit_code(verdicts: Iterable[str], allow: Collection[str] = ()) -> int:
    """0 aligned, 1 not aligned, 2 nothing to compare.  `allow` may hold verdicts."""
    explained, code = False, 2
    for verdict in verdicts:
        orphan = verdict == "CARRIED" and not explained
        bad = orphan or verdict in FAILING and verdict not in allow
        code = 1 if bad or code == 1 else 0
        explained |= verdict in _EXPLAINING
    return code


def first_bad_row(rows: Sequence[Row], allow: Collection[str] = ()) -> Row | None:
    """The first row that is not aligned, CARRIED only where nothing else is; None where all are."""
    if exit_code((row.verdict for row in rows), allow) == 0:
        return None
    bad = [row for row in rows if exit_code([row.verdict], allow)]
    return next((row for row in bad if row.verdict != "CARRIED"), bad[0] if bad else None)


def worst_row(rows: Iterable[Row]) -> Row | None:
    """The row that used most of what it was allowed; None where nothing was measured.

    Of one that passes for another reason what rounding is allowed says nothing: it comes last.
    """
    measured = (row for row in rows if share(row) is not None)
    return max(measured, key=lambda row: (row.verdict in AGREEING, share(row)), default=None)


def share(row: Row) -> float | None:
    """What part of what was allowed a row used; None where nothing was measured."""
    return row.gap / row.allowed if row.gap is not None and row.allowed else None


def count_verdicts(rows: Iterable[Row]) -> Mapping[str, int]:
    """How many rows have each verdict, worst first, those that occur."""
    verdicts = [row.verdict for row in rows]
    return {name: verdicts.count(name) for name in reversed(SEVERITY) if name in verdicts}
