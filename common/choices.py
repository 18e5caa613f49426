"""The rule for discrete choices, such as LSH buckets or an argmax: FLIP, or DIVERGED.

A choice can fall the other way between one side's own float32 and float64 runs.  So the reference's
float64 run decides, all others go on with its choices and log what they would have chosen, and
here each of those is held against the margin and the noise of the scores.  NumPy only.
"""

from dataclasses import dataclass

import numpy as np

from common.tolerances import tolerance
from common.verdict import Row, rounding_bound


@dataclass(slots=True)
class Choice:
    """What one run would have chosen, and the scores that it would have chosen from."""

    choice: np.ndarray  # integers
    scores: np.ndarray  # (*choice's shape, candidates), or another shape


def judge_choice(
    key: str,
    reference: Choice,
    margin: np.ndarray,
    ref32: Choice | None,
    cand32: Choice | None,
    cand64: Choice | None,
) -> Row:
    """Judge a discrete choice, such as an argmax: each run's own against the reference's.

    reference  the reference's float64 run (or float32, where there is no other), which all
               others went on with
    margin     by how much that run's choice won; the same shape as the choice
    A choice that fell the other way is a FLIP where twice the noise of the scores, the most by
    which two of them can approach, reaches the margin.  A float64 candidate's scores may differ
    from the reference's by no more than ROUNDING allows them to.
    """
    row = Row(key, "IDENTICAL", size=reference.choice.size, shape=reference.choice.shape)
    row.measure, row.beyond = "count", 0
    sides = {"torch float32": ref32, "paddle float32": cand32, "paddle float64": cand64}
    runs = {name: run for name, run in sides.items() if run is not None}
    for name, run in runs.items():
        if run.choice.shape != reference.choice.shape or run.choice.dtype.kind not in "iu":
            row.verdict = "INVALID"
            row.note = f"{name}: {run.choice.dtype}{list(run.choice.shape)} is not such a choice"
            return row
        if run.scores.shape != reference.scores.shape:
            row.verdict = "INVALID"
            row.note = f"{name}: scores of shape {run.scores.shape}, not {reference.scores.shape}"
            return row
        if not (np.isfinite(run.scores).all() and np.isfinite(reference.scores).all()):
            row.verdict = "INVALID"
            row.note = f"{name}: scores that are NaN or infinite"
            return row
    if row.size == 0 or margin.shape != reference.choice.shape:
        row.verdict, row.note = "INVALID", "a choice without its margins"
        return row
    pair = (ref32 or reference, cand32) if cand32 is not None else None
    if pair is not None:
        difference = np.abs(pair[0].choice.astype(np.float64) - pair[1].choice)
        row.mean_abs, row.max_abs = float(difference.mean()), float(difference.max())
        row.guide_passed = bool(row.mean_abs <= tolerance("guide"))

    notes = []
    for name, run in runs.items():
        differs = run.choice != reference.choice
        if not differs.any():
            continue
        noise = _score_noise(reference, run)
        if run is cand64 and ref32 is not None:
            scale = float(np.abs(reference.scores).max())
            own = float(np.abs(ref32.scores - reference.scores.astype(np.float64)).max())
            noise = np.minimum(noise, float(rounding_bound(own, scale, scale)))
        flip = differs & (margin <= 2.0 * noise) & (noise > 0.0)
        bad = differs & ~flip
        chosen = bad if bad.any() else differs
        widest = np.where(chosen, margin, -np.inf)
        index = tuple(int(i) for i in np.unravel_index(np.argmax(widest), margin.shape))
        count, word = int(np.count_nonzero(chosen)), "wrong" if bad.any() else "the other way"
        notes.append(
            f"{name}: {count} of {row.size} {word}, widest margin {float(margin[index]):.1e}, "
            f"scores' noise there {float(np.broadcast_to(noise, margin.shape)[index]):.1e}"
        )
        worse = bad.any() and row.verdict != "DIVERGED"
        if worse or row.verdict == "IDENTICAL":
            row.verdict = "DIVERGED" if bad.any() else "FLIP"
            row.beyond, row.worst_index = count, index
            row.gap = float(margin[index])
            row.allowed = 2.0 * float(np.broadcast_to(noise, margin.shape)[index])
            row.worst_ref = float(reference.choice[index])
            row.worst_cand = float(run.choice[index])
    row.note = "; ".join(notes)
    return row


def _score_noise(reference: Choice, run: Choice):
    """By how much a run's scores are off, per choice where the scores lie along a further axis."""
    difference = np.abs(run.scores.astype(np.float64) - reference.scores)
    if difference.shape[:-1] == reference.choice.shape:
        return difference.max(axis=-1)
    return np.broadcast_to(difference.max(), reference.choice.shape)
