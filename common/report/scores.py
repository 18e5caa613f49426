"""Both sides' scores, as their logs hold them: of steps 2 and 5; and whether they can show much.

The guide's pair of these steps holds the scores and nothing else (common/logs/guide_pair.py); what
it holds over torch's is shown as it was logged, with what the guide allows of it.
"""

import math
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.logs.guide_pair import full_stem, is_no_share, is_over_torch
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind

STEMS = ("metric", "train_align")  # of pairs that hold scores
_DIGITS = 7  # significant ones: a float32's
# Standard deviations of the share that is right by chance, where the commonest label is always
# named: of twenty scores that are no better one lies beyond.
BY_CHANCE = 2.0


@dataclass(frozen=True)
class Score:
    """One score of one model, on both sides; None where a side has none."""

    name: str
    torch: float | None
    paddle: float | None
    limit: float  # what the guide allows of a difference
    over_torch: bool = False  # no share of 1: allowed is a part of torch's score

    @property
    def difference(self) -> float | None:
        """Return how far apart both sides' scores are; None where one is missing."""
        if self.torch is None or self.paddle is None:
            return None
        return abs(self.torch - self.paddle)

    @property
    def passed(self) -> bool:
        """The guide's rule, by itself; NaN passes nowhere."""
        return self.difference is not None and self.difference <= self.limit

    def of_torchs(self, value: float | None) -> str:
        """A difference as it is printed: by itself, or as a percentage of torch's score."""
        if value is None:
            return "–"
        if not self.over_torch:
            return f"{value:.2g}"
        return Kind.PART_OF_TORCHS(percent=100.0 * value / abs(self.torch))


def allowed(limit: float) -> str:
    """Return in words how far apart the guide allows scores to be."""
    return Kind.SCORE_LIMIT(limit=limit, percent=100.0 * limit)


def compared(name: str, torch: float | None, paddle: float | None, limit: float) -> Score:
    """Both sides' score; `limit` is what the guide allows of a share of 1."""
    over = torch is not None and is_no_share(name, torch)
    return Score(name, torch, paddle, limit * abs(torch) if over else limit, over)


def scores_of(folder: Path, stem: str, limit: float) -> list[Score]:
    """The scores of a result folder's pair; none where that step has none, or no such pair.

    Scores that the pair holds over torch's are those of the full logs.
    """
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    if stem not in STEMS or not all(log.is_file() for log in logs):
        return []
    with suppress(UserError), ExitStack() as stack:  # the result itself says what cannot be read
        pairs = [stack.enter_context(read_log(path)) for path in logs]
        keys = sidecar_of(logs[0]).selected.get("keys", {})
        over = {key: full for key, full in keys.items() if is_over_torch(key, full)}
        full = [ResultFolder(folder).log(full_stem(stem), side) for side in SIDES] if over else []
        whole = [stack.enter_context(read_log(path)) for path in full]
        scores = []
        single = [key for log in pairs for key in log if log.shape(key) == ()]
        for key in dict.fromkeys(single):
            name = over.get(key, key)
            sides = whole if key in over else pairs
            torch, paddle = (float(log[name]) if name in log else None for log in sides)
            scores.append(compared(name, torch, paddle, limit))
        return scores
    return []


def what_is_scored(folder: Path, pair, scores: list[Score], stem: str, inside: str = "") -> dict:
    """Return facts that say whether a difference could be seen in the scores.

    stem    of the logs that hold predictions and labels, whose keys begin with `inside`

    `same` are the scores that are 0, or 1, on both sides.  Of a classification there is for each
    side of how many classes its `labels` are, how many of these it `predicts`, the `share` of the
    commonest, what share is `right`, and whether that is `by_chance`; of a forecast what part of
    the labels' variance is `explained`.
    """
    found: dict[str, object] = {
        "same": {s.name: s.torch for s in scores if s.torch == s.paddle and s.torch in (0.0, 1.0)}
    }
    own = hasattr(pair.case, "metric")  # its names have meanings of their own
    errors = {score.name: score for score in scores if not own and score.difference is not None}
    for side in SIDES:
        with read_log(ResultFolder(folder).log(stem, side)) as log:
            names = (f"{inside}labels", f"{inside}predictions")
            values = [log[name] for name in names if name in log]
        if len(values) == 2 and all(v.dtype.kind in "iu" for v in values):
            found[side] = _of_classes(*values)
        elif "rse" in errors:
            found[side] = {"explained": 1.0 - getattr(errors["rse"], side) ** 2}
    return found


def _of_classes(labels: np.ndarray, predictions: np.ndarray) -> dict[str, object]:
    """Return one side's facts of a classification; a label below 0 does not count."""
    labels, predictions = labels[labels >= 0], predictions[labels >= 0]
    classes, counts = np.unique(labels, return_counts=True)
    samples = max(labels.size, 1)
    right, share = float((labels == predictions).sum()) / samples, float(max(counts)) / samples
    luck = BY_CHANCE * math.sqrt(share * (1.0 - share) / samples)
    return {
        "labels": classes.size,
        "predicts": int(np.isin(classes, predictions).sum()),
        "share": share,
        "right": right,
        "by_chance": right <= share + luck,
    }


def what_hides(scored: Mapping[str, object]) -> str:
    """Say why a difference would hardly show in scores; empty where it would."""
    said = []
    sides = {side: scored[side] for side in SIDES if side in scored}
    if len(sides) > 1 and sides["torch"] == sides["paddle"]:
        sides = {Kind.EACH_SIDE(): sides["torch"]}
    for side, of in sides.items():
        if of.get("explained", 1.0) <= 0.0:
            said.append(Kind.EXPLAINS_NOTHING(side=side))
        if of.get("predicts", 0) < of.get("labels", 0):
            counts = {"predicts": of["predicts"], "labels": of["labels"]}
            said.append(Kind.PREDICTS_FEW(side=side, **counts))
        if of.get("by_chance"):
            shares = {"right": of["right"], "share": of["share"]}
            said.append(Kind.RIGHT_BY_CHANCE(side=side, **shares))
    for value in (0, 1):
        names = [name for name, same in scored["same"].items() if same == value]
        said += [Kind.SAME_ON_BOTH(scores=names, value=value)] if names else []
    return Kind.SCORES_HARDLY_SHOW(reasons=said) if said else ""


def figure(value: float | None) -> str:
    """A score as it is printed."""
    return "–" if value is None else f"{value:.{_DIGITS}g}"
