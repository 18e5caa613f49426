"""What two trainings came to, of which one at least was logged by somebody else's trainer.

NumPy only; check_step5.py --torch-losses FILE --paddle-losses FILE fills it.  It leaves
trainers.json in step 5's folder of the model's results, step5_train/log/MODEL/trainers.json (with
--out DIR, DIR/step5_train/MODEL/…):

schema     1
model      the pair's name; `pair`: its folder; `preset`
sources    {torch, paddle}: the pair's files and their hashes, where its training here was used
verdict    IDENTICAL, ROUNDING (the drift is within the self-twin's envelope), CLOSE (the first
           losses are equal, and nothing better can be said of the others), DIVERGED or INVALID (a
           loss that is NaN); `exit_code` 0 or 1 (with 2 no file is written)
sides      {torch, paddle}, each:
    file         the path; null: this side's own training, from step 5's result
    format       csv, jsonl, trainer_state, training log, or step 5
    name         of the column that was read
    logged       how many losses; `first_step`, `last_step`, `every`: steps between two of them
                 (null: not always as many)
    means        "no" (each loss is of its own step) or "since the last" (mean of the steps since)
    digits       how far apart two values can be that the file writes alike (half of it is allowed)
    steps, losses  the curve as it was read, at most 2,000 points (every nth where there are more)
compared   steps [...] and {torch, paddle} losses [...] that were compared, both brought to the same
           steps and means; at most 2,000 points
first      {step, torch, paddle, difference, allowed, equal (bool), ratio}
by         "self-twin" (the runs can be repeated here), or "first step"
rows       a list of {key, verdict, gap, allowed, note}: train/first, train/drift/PART
cause      where the first losses differ: {kind, said, of}, else null.  kind: "other reduction",
           "other step numbers" or "unexplained"; `of`: the side it was found on ("torch", "paddle"
           or ""); `twincheck why` looks for it
cannot_show  sentences: what two logged curves do not say
notes      sentences: what was left out, averaged or aligned

Numbers that are undefined are null.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.system.reasons import Reason, reasons_json
from twincheck.common.verdict.row import Row, claim, exit_code, worst
from twincheck.extras.trainers import Kind
from twincheck.extras.trainers.loss_logs import Curve, Together
from twincheck.step5_train import envelope as envelopes
from twincheck.step5_train.envelope import parts_of

SCHEMA = 1
MOST_POINTS = 2000
# Of a first loss, beside what the file's digits leave open.  The first losses of correct ports were
# 1e-9 to 5e-7 of the loss apart in float32; labels shifted once more change a loss by 1e-2 and up.
# In half precision it is the format's own epsilon.
ALLOWED = {"float32": 1e-5, "float16": 2.0**-11, "bfloat16": 2.0**-8}
MOST_OF_A_COUNT = 0.1  # a ratio of two losses that is a count is known to so much of 1 at least
CANNOT = Kind.FIRST_SHOWS_LITTLE(), Kind.LATER_SHOW_LITTLE()


@dataclass
class Precision:
    """How far apart two losses may be and still be equal but for rounding."""

    torch: Curve
    paddle: Curve
    dtype: str = "float32"

    @property
    def digits(self) -> float:
        """What both files' digits leave open."""
        return (self.torch.step_of_values + self.paddle.step_of_values) / 2

    def allowed(self, loss: float) -> float:
        """Of a loss of that size."""
        return self.digits + ALLOWED[self.dtype] * abs(loss)

    def alike(self, a: float, b: float) -> bool:
        """Whether two losses are equal; NaN is not."""
        return abs(a - b) <= self.allowed(max(abs(a), abs(b)))


@dataclass
class Envelope:
    """The same training, run here: what rounding alone does to it.

    runs    of torch and of Paddle the losses of its run, step by step, and of its self-twins
    folder  step 5's result: its first steps say what float32 itself is off
    """

    runs: tuple[list[np.ndarray], list[np.ndarray]]
    folder: Path
    per_epoch: int


@dataclass
class Judged:
    """What two curves came to."""

    rows: list[Row] = field(default_factory=list)
    by: str = "first step"
    cause: dict[str, str] | None = None
    cannot_show: list[str] = field(default_factory=lambda: list(CANNOT))
    notes: list[str] = field(default_factory=list)


def judge(found: Together, precision: Precision, envelope: Envelope | None) -> Judged:
    """Rows for two curves."""
    judged = Judged(notes=list(found.notes))
    torch, paddle = found.torch, found.paddle
    bad = ~(np.isfinite(torch) & np.isfinite(paddle))
    if bad.any():
        note = Kind.LOSSES_NOT_FINITE(step=int(found.steps[np.flatnonzero(bad)[0]]))
        judged.rows = [
            Row("train/losses", "INVALID", size=int(bad.sum()), reasons=(note,), origin=True)
        ]
        return judged
    judged.rows = [first_row(found, precision)]
    if judged.rows[0].verdict == "DIVERGED":
        return judged
    apart = np.abs(torch - paddle)
    equal = [precision.alike(a, b) for a, b in zip(torch, paddle, strict=True)]
    run = equal.index(False) if False in equal else len(equal)
    judged.notes.append(Kind.LOSSES_EQUAL(count=run, size=len(equal)))
    aligned = over(found, envelope) if envelope is not None else None
    if aligned is None:
        gap = float((apart / np.maximum(np.abs(torch), 1e-300)).max(initial=0.0))
        verdict = "CLOSE" if apart.any() else "IDENTICAL"
        row = Row("train/later", verdict, gap=gap, size=torch.size)
        if apart.any():
            row.measure = "max"
            row.add(Kind.LOSSES_APART(gap=row.gap))
        judged.rows.append(row)
        return judged
    judged.by = "self-twin"
    count = aligned[0][0].size
    if count < torch.size:
        judged.notes.append(Kind.TRAINING_ENDS(count=count, size=torch.size))
    apart_steps = np.diff(found.steps, prepend=0)
    places = max(1, envelope.per_epoch // int(np.median(apart_steps)))
    parts = parts_of(count, places)
    moved = envelopes.spreads_of(*aligned, parts)
    rows = envelopes.drift(torch[:count], paddle[:count], moved, envelope.folder, parts)
    digits = precision.digits
    judged.rows += [claim(r.key, r.gap, r.allowed + digits, *r.reasons) for r in rows]
    judged.cannot_show = [CANNOT[0]]
    return judged


def first_row(found: Together, precision: Precision) -> Row:
    """The row train/first: are both first losses equal but for rounding?"""
    a, b, width = float(found.torch[0]), float(found.paddle[0]), int(found.widths[0])
    allowed = precision.allowed(max(abs(a), abs(b))) * width
    reasons, step = [Kind.FIRST_LOSSES(torch=a, paddle=b)], int(found.steps[0])
    if step > width:
        reasons.append(Kind.FIRST_OF_STEP(step=step))
    if width > 1:
        reasons.append(Kind.FIRST_OF_MEANS(count=width))
    return claim("train/first", abs(a - b), allowed, *reasons)


def over(found: Together, envelope: Envelope) -> list[list[np.ndarray]] | None:
    """Each side's run and self-twins at the places of two curves; None where these begin later."""
    smallest = min(each.size for side in envelope.runs for each in side)
    if found.steps[0] > smallest:
        return None
    return [[at_places(found, each[:smallest]) for each in side] for side in envelope.runs]


def at_places(found: Together, losses: np.ndarray) -> np.ndarray:
    """The losses of a training's every step at the places of two curves, of those that it has."""
    have = found.steps <= losses.size
    places = zip(found.steps[have], found.widths[have], strict=True)
    return np.array([losses[end - width : end].mean() for end, width in places])


def cause_of(found: Together, precision: Precision, command: str) -> dict[str, object]:
    """Why first losses differ, as far as two curves alone tell: kind, said, of.

    command   what looks for the cause by training
    """
    sides = {"torch": found.torch, "paddle": found.paddle}
    for early, late in (("torch", "paddle"), ("paddle", "torch")):
        pairs = list(zip(sides[early][1:4], sides[late][:3], strict=False))
        if len(pairs) == 3 and all(precision.alike(x, y) for x, y in pairs):
            said = Kind.ONE_STEP_LATER(late=late, early=early)
            return _cause(Kind.OTHER_STEPS(), said, late)
    less, more = sorted(sides, key=lambda side: abs(sides[side][0]))
    count = _count(*(abs(float(sides[side][0])) for side in (less, more)), precision)
    if count:
        said = Kind.TIMES_THE_OTHER(more=more, less=less, count=count)
        return _cause(Kind.OTHER_REDUCTION(), said, more)
    return _cause(Kind.UNEXPLAINED(), Kind.TWO_CURVES_ALONE(command=command), "")


def _count(small: float, large: float, precision: Precision) -> int:
    """How many times the smaller loss the larger is, where that is a count; 0 where it is none."""
    if not small:
        return 0
    ratio = large / small
    count = round(ratio)
    open_to = ratio * (precision.allowed(small) / small + precision.allowed(large) / large)
    close = abs(ratio - count) <= open_to
    return count if count > 1 and close and open_to < MOST_OF_A_COUNT else 0


def _cause(kind: str, said: Reason, of: str) -> dict[str, object]:
    return {"kind": kind, "said": said, "reason": said.as_json(), "of": of}


def as_json(found: Together, sides: Mapping[str, Curve], judged: Judged) -> dict[str, object]:
    """trainers.json without the model: what was read, compared and found."""
    a, b = float(found.torch[0]), float(found.paddle[0])
    first = judged.rows[0]
    verdicts = [row.verdict for row in judged.rows]
    return {
        "verdict": worst(verdicts),
        "exit_code": exit_code(verdicts),
        "sides": {side: _side(curve) for side, curve in sides.items()},
        "compared": {
            "steps": thinned(found.steps),
            "torch": thinned(found.torch),
            "paddle": thinned(found.paddle),
        },
        "first": {
            "step": int(found.steps[0]),
            "torch": _number(a),
            "paddle": _number(b),
            "difference": _number(abs(a - b)),
            "allowed": _number(first.allowed),
            "equal": first.verdict in ("IDENTICAL", "ROUNDING"),
            "ratio": _number(b / a) if a else None,
        },
        "by": judged.by,
        "rows": [_row(row) for row in judged.rows],
        "cause": judged.cause,
        "cannot_show": judged.cannot_show,
        "notes": judged.notes,
        "reasons": reasons_json(judged.notes),
    }


def _row(row: Row) -> dict[str, object]:
    numbers = {"gap": _number(row.gap), "allowed": _number(row.allowed)}
    return {"key": row.key, "verdict": row.verdict, **numbers, "note": row.note}


def _side(curve: Curve) -> dict[str, object]:
    means = curve.means is True and curve.every != 1
    return {
        "file": curve.path or None,
        "format": curve.format,
        "name": curve.name,
        "logged": int(curve.steps.size),
        "first_step": int(curve.steps[0]),
        "last_step": int(curve.steps[-1]),
        "every": curve.every,
        "means": "since the last" if means else "no",
        "digits": curve.step_of_values,
        "steps": thinned(curve.steps),
        "losses": thinned(curve.losses),
    }


def thinned(values: np.ndarray) -> list:
    """At most MOST_POINTS of them, evenly; NaN and infinity are null."""
    apart = -(-values.size // MOST_POINTS) or 1
    return [_number(v) if isinstance(v, float) else v for v in values[::apart].tolist()]


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
