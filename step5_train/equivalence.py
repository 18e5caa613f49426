"""Two answers about trainings, kept apart: do the twins train alike, and is the number reached?

The check's process only (SciPy).  Both look at the final scores of several trainings a side, each
from a seed of its own: initial weights, order and dropout are the seed's, on both sides the same.

Alike      the 95 % interval of the mean difference torch − paddle (Student's t; a seed's two runs
           are a pair) against what another seed changes: it must lie within ± MARGIN standard
           deviations of torch's own scores, or within the guide's 0.15 % where that is more
Reached    each side's mean against the published value and its published deviation, where the test
           set is as large as the published one; that is no statement about the port: both sides
           may miss it, or reach it with another mistake
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from twincheck.common.report.scores import compared
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import FAILING, Row

LEVEL = 0.95
DIFFERENT_LEVEL = 0.99  # an interval at this level that leaves out 0 is a difference
MARGIN = 2.0  # standard deviations of torch's scores over the seeds
GUIDE = 0.0015  # the guide's 0.15 %


class Interval(NamedTuple):
    """A mean with the ends of its interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The mean of at least two values and its interval, by Student's t."""
    from scipy.stats import t

    values = np.asarray(values, dtype=np.float64)
    if values.size < 2:
        raise ValueError(Kind.INTERVAL_OF_ONE())
    mean = float(values.mean())
    half = t.ppf(0.5 + level / 2, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size)
    return Interval(mean, mean - float(half), mean + float(half))


def judge_seeds(name: str, torch: Sequence[float], paddle: Sequence[float]) -> Row:
    """The row `seeds/NAME` of one score under the same seeds on both sides.

    ROUNDING   the interval lies within the margin: the twins train alike
    DIVERGED   they do not: the 99 % interval leaves out 0, and the mean is beyond the guide's limit
    CLOSE      these seeds do not decide it, and the guide's rule passes on their means
    UNDECIDED  these seeds do not decide it, and the guide's rule fails on their means
    """
    key = f"seeds/{name}"
    if len(torch) != len(paddle) or not np.isfinite([*torch, *paddle]).all():
        said = Kind.SEEDS_NOT_ALIKE(torch=str(list(torch)), paddle=str(list(paddle)))
        return Row(key, "INVALID", reasons=(said,), origin=True)
    difference = np.subtract(torch, paddle)
    gap = interval(difference)
    wide = interval(difference, DIFFERENT_LEVEL)
    deviation = float(np.std(torch, ddof=1))
    limit = compared(name, float(np.mean(torch)), float(np.mean(paddle)), GUIDE).limit
    margin = max(MARGIN * deviation, limit)
    off = max(abs(gap.low), abs(gap.high))
    by_guide = abs(gap.mean) <= limit
    verdict = "CLOSE" if by_guide else "UNDECIDED"
    word = Kind.SEEDS_DECIDE_NOT(count=len(torch))
    if off <= margin:
        verdict = "ROUNDING" if off else "IDENTICAL"
        word = Kind.SEEDS_AGREE()
    elif not wide.low <= 0.0 <= wide.high and abs(gap.mean) > limit:
        verdict = "DIVERGED"
        word = Kind.SEEDS_DIFFER()
    row = Row(key, verdict, gap=off, allowed=margin, measure="claim", size=len(torch))
    row.origin = verdict in FAILING
    told = {"word": word, "torch": _spread(torch), "paddle": _spread(paddle), **gap._asdict()}
    told |= {"allowed": margin, "margin": MARGIN, "limit": limit}
    guide = Kind.GUIDE_PASSES() if by_guide else Kind.GUIDE_FAILS()
    row.add(Kind.SEEDS_JUDGED(**told, guide=guide))
    return row


def one_seed(name: str, torch: float | None, paddle: float | None, limit: float) -> Row:
    """The row `seeds/NAME` of a score that fails the guide's rule in the one training there is."""
    off = math.inf if torch is None or paddle is None else abs(torch - paddle)
    row = Row(f"seeds/{name}", "UNDECIDED", gap=off, allowed=limit, size=1, origin=True)
    row.measure = "claim"
    row.add(Kind.SEED_TELLS_NOT(torch=str(torch), paddle=str(paddle), limit=limit))
    return row


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.5f} ± {np.std(values, ddof=1):.5f}"


def reached(
    target: Mapping[str, object],
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    kind: str,
    test_samples: int,
) -> list[dict[str, object]]:
    """Each published value against each side's mean over the seeds.

    target        case.py's TARGETS entry: {"source": str, "test_samples": int, "scores": {NAME:
                  (value, deviation)}}
    scores        side -> NAME -> final scores, one a seed
    kind          "largest" or "smallest": which way a score is better
    test_samples  of these trainings; with another number than the target's, `reached` is None
    """
    comparable = target["test_samples"] == test_samples
    answers = []
    for name, (value, deviation) in target["scores"].items():
        for side, values in scores.items():
            if name not in values:
                continue
            mean = float(np.mean(values[name]))
            better = mean - value if kind == "largest" else value - mean
            answers.append(
                {
                    "score": name,
                    "side": side,
                    "published": value,
                    "deviation": deviation,
                    "source": target["source"],
                    "seeds": len(values[name]),
                    "mean": mean,
                    "interval": [*interval(values[name])[1:]] if len(values[name]) > 1 else None,
                    "test_samples": test_samples,
                    "published_test_samples": target["test_samples"],
                    "reached": bool(better >= -deviation) if comparable else None,
                }
            )
    return answers


def sentence(answer: Mapping[str, object]) -> str:
    """One answer of `reached` in words."""
    goal = {name: answer[name] for name in ("source", "score", "published")}
    if answer["reached"] is None:
        counts = {"here": answer["test_samples"], "there": answer["published_test_samples"]}
        return Kind.NUMBER_NOT_COMPARABLE(**goal, **counts)
    ends, found = answer["interval"], Kind.SEED_ONE()
    if ends:
        found = Kind.SEEDS_INTERVAL(low=ends[0], high=ends[1])
    told = goal | {name: answer[name] for name in ("deviation", "side", "mean")}
    said = Kind.NUMBER_REACHED if answer["reached"] else Kind.NUMBER_NOT_REACHED
    return said(**told, seeds=found)
