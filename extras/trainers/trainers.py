"""What two trainings came to, of which one at least was logged by somebody else's trainer.

NumPy only; check_step5.py --torch-losses FILE --paddle-losses FILE fills it.  It leaves
trainers.json in step 5's folder of the model's results, step5_train/log/MODEL/trainers.json (with
--out DIR, DIR/step5_train/MODEL/…):

schema     1
model      the pair's name; `pair`: its folder; `preset`
sources    {torch, paddle}: the pair's files and their hashes, where its training here was used
verdict    IDENTICAL, CLOSE (the first losses are equal, and nothing better can be said of the
           others), DIVERGED or INVALID (a loss that is NaN); `exit_code` 0 or 1 (with 2 no file
           is written)
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
rows       a list of {key, verdict, gap, allowed, note, reasons}: train/first, train/later
cannot_show  sentences: what two logged curves do not say
notes      sentences: what was left out, averaged or aligned

Numbers that are undefined are null.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twincheck.common.system.reasons import reasons_json
from twincheck.common.verdict.row import Row, claim, exit_code, worst
from twincheck.extras.trainers import Kind
from twincheck.extras.trainers.loss_logs import Curve, Together

SCHEMA = 1
MOST_POINTS = 2000
# Of a first loss, beside what the file's digits leave open.  The first losses of correct ports were
# 1e-9 to 5e-7 of the loss apart in float32; labels shifted once more change a loss by 1e-2 and up.
# In half precision it is the format's own epsilon.
ALLOWED = {"float32": 1e-5, "float16": 2.0**-11, "bfloat16": 2.0**-8}
CANNOT = Kind.FIRST_SHOWS_LITTLE(), Kind.LATER_SHOW_LITTLE()


@dataclass
class Precision:
    """The distance of two losses that are equal but for rounding."""

    torch: Curve
    paddle: Curve
    dtype: str = "float32"

    @property
    def digits(self) -> float:
        """Return the distance that both files' digits leave open."""
        return (self.torch.step_of_values + self.paddle.step_of_values) / 2

    def allowed(self, loss: float) -> float:
        """Return the distance that is allowed of a loss of that size."""
        return self.digits + ALLOWED[self.dtype] * abs(loss)

    def alike(self, a: float, b: float) -> bool:
        """Return whether two losses are equal but for rounding; NaN is not."""
        return abs(a - b) <= self.allowed(max(abs(a), abs(b)))


def judge(found: Together, precision: Precision) -> tuple[list[Row], list[str]]:
    """Rows and notes on two curves."""
    torch, paddle, notes = found.torch, found.paddle, list(found.notes)
    bad = ~(np.isfinite(torch) & np.isfinite(paddle))
    if bad.any():
        note = Kind.LOSSES_NOT_FINITE(step=int(found.steps[np.flatnonzero(bad)[0]]))
        how = {"size": int(bad.sum()), "reasons": (note,), "origin": True}
        return [Row("train/losses", "INVALID", **how)], notes
    first = first_row(found, precision)
    if first.verdict == "DIVERGED":
        return [first], notes
    equal = [precision.alike(a, b) for a, b in zip(torch, paddle, strict=True)]
    run = equal.index(False) if False in equal else len(equal)
    notes.append(Kind.LOSSES_EQUAL(count=run, size=len(equal)))
    gap = float((np.abs(torch - paddle) / np.maximum(np.abs(torch), 1e-300)).max(initial=0.0))
    later = Row("train/later", "CLOSE" if gap else "IDENTICAL", gap=gap, size=torch.size)
    if gap:
        later.measure = "max"
        later.add(Kind.LOSSES_APART(gap=gap))
    return [first, later], notes


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


def as_json(
    found: Together, sides: Mapping[str, Curve], rows: Sequence[Row], notes: Sequence[str]
) -> dict[str, object]:
    """trainers.json without the model: what was read, compared and found."""
    a, b = float(found.torch[0]), float(found.paddle[0])
    first = rows[0]
    verdicts = [row.verdict for row in rows]
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
        "rows": [_row(row) for row in rows],
        "cannot_show": list(CANNOT),
        "notes": list(notes),
        "reasons": reasons_json(notes),
    }


def _row(row: Row) -> dict[str, object]:
    numbers = {"gap": _number(row.gap), "allowed": _number(row.allowed)}
    told = {"note": row.note, "reasons": reasons_json(row.reasons)}
    return {"key": row.key, "verdict": row.verdict, **numbers, **told}


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
    """Return at most MOST_POINTS of the values, evenly; NaN and infinity are null."""
    apart = -(-values.size // MOST_POINTS) or 1
    return [_number(v) if isinstance(v, float) else v for v in values[::apart].tolist()]


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
