"""The rule for discrete choices, such as LSH buckets, an argmax or a sort: FLIP, or DIVERGED.

A choice can differ between one side's own float32 and float64 runs.  So the reference's
float64 run decides, all others go on with its choices and log what they would have chosen, and
here each of those is asked two things.  Is it what its own scores say?  And do its scores differ by
no more than noise: has what it chose a score, in the reference, within twice the noise of the score
of what the reference chose?  NumPy only.
"""

from dataclasses import dataclass

import numpy as np

from twincheck.common.logs.leading import KEPT, LARGEST
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import Row
from twincheck.common.verdict.rule import rounding_bound
from twincheck.common.verdict.tolerances import tolerance


@dataclass(slots=True)
class Choice:
    """The choice of one run, and the scores that it has chosen from."""

    choice: np.ndarray  # integers: (...) of an argmax, (..., k) of a top-k or a sort
    scores: np.ndarray  # (..., candidates), the larger the better, or another shape
    # Which candidates' scores these are, integers (..., kept), in all runs alike; behind them in
    # `scores` are the run's own largest and a sum (common/logs/leading.py).  None: all candidates'.
    places: np.ndarray | None = None


def judge_choice(
    key: str,
    reference: Choice,
    margin: np.ndarray,
    ref32: Choice | None,
    cand32: Choice | None,
    cand64: Choice | None,
) -> Row:
    """Judge a discrete choice: each run's own against the reference's.

    reference  the reference's float64 run (or float32, where there is no other), which all
               others went on with
    margin     by how much that run's choice won; the same shape as the choice
    A choice that differs is a FLIP where its own run's scores say so and twice their
    noise, the most by which two of them can approach, reaches the distance of the two scores.  A
    float64 candidate's scores may differ from the reference's by no more than ROUNDING allows.
    """
    row = Row(key, "IDENTICAL", size=reference.choice.size, shape=reference.choice.shape)
    row.measure, row.beyond = "count", 0
    sides = {"torch float32": ref32, "paddle float32": cand32, "paddle float64": cand64}
    runs = {name: run for name, run in sides.items() if run is not None}
    if why := _unlike(reference, margin, runs):
        return row.decided("INVALID", why)
    if cand32 is not None:
        difference = np.abs((ref32 or reference).choice.astype(np.float64) - cand32.choice)
        row.mean_abs, row.max_abs = float(difference.mean()), float(difference.max())
        row.guide_passed = bool(row.mean_abs <= tolerance("guide"))

    verdict, reasons = row.verdict, []
    for name, run in runs.items():
        differs = run.choice != reference.choice
        if not differs.any():
            continue
        noise = _score_noise(reference, run)
        if run is cand64 and ref32 is not None:
            # In float64 the scores of another function may not excuse the choice they cause.
            scale = float(np.abs(_finite(reference.scores)).max())
            own = float(_distance(ref32.scores, reference.scores).max())
            allowed = float(rounding_bound(own, scale, scale))
            noise = np.minimum(noise, allowed)
        lost, sound = _lost(reference, run, margin)
        bad = differs & ~(sound & (lost <= 2.0 * noise) & (noise > 0.0))
        chosen = bad if bad.any() else differs
        widest = int(np.argmax(np.where(chosen, lost, -1.0)))  # where most is lost
        index = tuple(int(i) for i in np.unravel_index(widest, chosen.shape))
        count = int(np.count_nonzero(chosen))
        how = {"margin": float(lost[index]), "noise": float(noise[index])}
        how["meaning"] = _meaning(bad.any(), bool(sound[index]), how["margin"])
        differing = Kind.CHOICE_WRONG if bad.any() else Kind.CHOICE_DIFFERS
        reasons.append(differing(run=name, count=count, size=row.size, **how))
        worse = bad.any() and verdict != "DIVERGED"
        if worse or verdict == "IDENTICAL":
            verdict = "DIVERGED" if bad.any() else "FLIP"
            row.excuses = () if bad.any() else (Kind.NEAR_TIE,)
            row.beyond, row.worst_index = count, index
            row.gap = float(lost[index])
            row.allowed = 2.0 * float(noise[index])
            row.worst_ref = float(reference.choice[index])
            row.worst_cand = float(run.choice[index])
    return row.decided(verdict, *reasons)


def _unlike(reference: Choice, margin: np.ndarray, runs) -> str:
    """Say why the runs' choices cannot be compared; empty where they can."""
    for name, run in runs.items():
        if run.choice.shape != reference.choice.shape or run.choice.dtype.kind not in "iu":
            of = {"dtype": str(run.choice.dtype), "shape": str(list(run.choice.shape))}
            return Kind.CHOICE_OF_ANOTHER_SHAPE(run=name, **of)
        if run.scores.shape != reference.scores.shape:
            shapes = {"shape": run.scores.shape, "expected": reference.scores.shape}
            return Kind.SCORES_OF_ANOTHER_SHAPE(run=name, **shapes)
        if not _same_places(reference, run):
            return Kind.OTHER_SCORES_KEPT(run=name)
        if np.isnan(run.scores).any() or np.isnan(reference.scores).any():
            return Kind.SCORES_NAN(run=name)
        infinite = np.isinf(run.scores) | np.isinf(reference.scores)
        if (run.scores[infinite] != reference.scores[infinite]).any():
            return Kind.SCORES_INFINITE(run=name)
    if reference.choice.size == 0 or margin.shape != reference.choice.shape:
        return Kind.NO_MARGINS()
    return ""


def _same_places(reference: Choice, run: Choice) -> bool:
    """Return whether the scores of both are those of the same candidates."""
    if reference.places is None or run.places is None:
        return reference.places is run.places
    shape = reference.choice.shape
    kept = reference.places.shape, reference.scores.shape
    as_many = kept == ((*shape, KEPT), (*shape, KEPT + 2))
    return as_many and np.array_equal(reference.places, run.places)


def _meaning(wrong: bool, sound: bool, lost: float) -> str:
    """Say what a choice that differs means for the port."""
    if not wrong:
        return Kind.CHOICE_NEAR_TIE()
    if not sound and lost == 0.0:
        return Kind.CHOICE_EXACT_TIE()
    if not sound:
        return Kind.CHOICE_BY_ANOTHER_RULE()
    return Kind.CHOICE_BY_OTHER_SCORES()


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, 0.0)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b| in float64; infinities are the same in both."""
    return np.abs(_finite(a).astype(np.float64) - _finite(b))


def _score_noise(reference: Choice, run: Choice) -> np.ndarray:
    """By how much a run's scores are off, in the choice's shape."""
    shape = reference.choice.shape
    off = _distance(run.scores, reference.scores)
    if reference.places is not None:
        return off[..., :KEPT].max(axis=-1)
    if off.shape[:-1] == shape:
        return off.max(axis=-1)
    if off.shape[:-1] == shape[:-1] and off.ndim == len(shape):  # a top-k, or a sort
        return np.broadcast_to(off.max(axis=-1, keepdims=True), shape)
    return np.broadcast_to(off.max(), shape)


def _lost(reference: Choice, run: Choice, margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far apart the reference scores both choices, and whether the run's own say so.

    Both have the choice's shape.  Where the choice is no index into the scores (they may be of any
    shape), the margin stands for the first, and nothing is known against the second.
    """
    if reference.places is not None:
        return _lost_of_few(reference, run)
    one = reference.scores.shape[:-1] == reference.choice.shape
    many = reference.scores.ndim == reference.choice.ndim
    many = many and reference.scores.shape[:-1] == reference.choice.shape[:-1]
    if not (one or many) or reference.choice.shape[-1:] > reference.scores.shape[-1:] and many:
        return margin.astype(np.float64), np.ones(margin.shape, bool)
    ours, theirs = (c[..., None] if one else c for c in (reference.choice, run.choice))
    count = reference.scores.shape[-1]
    inside = (theirs >= 0) & (theirs < count)
    theirs = np.where(inside, theirs, 0)

    def at(scores, indices):
        return np.take_along_axis(scores, indices, axis=-1)

    a, b = (at(reference.scores, indices).astype(np.float64) for indices in (ours, theirs))
    lost = np.where(a == b, 0.0, np.abs(a - b))
    lost = np.where(np.isfinite(lost), lost, np.inf)
    own = at(run.scores, theirs)
    due = -np.sort(-run.scores, axis=-1)[..., : ours.shape[-1]]  # what its own scores offer there
    tie = (a == b) & (at(run.scores, ours) == own)  # in both runs: noise has no part in it
    sound = inside & (own == due) & ~(tie & (ours != theirs))
    lost = np.where(inside, lost, np.inf)
    return (lost[..., 0], sound[..., 0]) if one else (lost, sound)


def _lost_of_few(reference: Choice, run: Choice) -> tuple[np.ndarray, np.ndarray]:
    """Do as `_lost` where the scores that were the largest in the reference were kept alone.

    A choice whose score was not kept loses more than all of these, nobody knows how much more: no
    noise excuses it.
    """

    def at(scores, choice):
        """Its score, and whether that was kept."""
        here = reference.places == choice[..., None]
        column = here.argmax(axis=-1)[..., None]
        return np.take_along_axis(scores, column, axis=-1)[..., 0], here.any(axis=-1)

    (a, kept_a), (b, kept_b) = (at(reference.scores, one.choice) for one in (reference, run))
    kept = kept_a & kept_b
    least = reference.scores[..., :KEPT].min(axis=-1)
    lost = np.abs(a.astype(np.float64) - np.where(kept_b, b, least))
    far = kept_a & (lost > 2.0 * _score_noise(reference, run))
    lost = np.where(kept | far, lost, np.inf)
    own, theirs = (at(run.scores, one.choice)[0] for one in (run, reference))
    tie = (a == b) & (theirs == own) & (reference.choice != run.choice)
    return lost, ~kept | (own == run.scores[..., LARGEST]) & ~tie
