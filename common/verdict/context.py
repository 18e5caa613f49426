"""What the rule is told of a tensor beside its values.  NumPy only."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twincheck.common.system.half import EPSILONS
from twincheck.common.verdict.tolerances import tolerance


def longest_sums(shapes: Sequence[Sequence[int]]) -> list[int]:
    """Count the terms of the longest sum that may be in each tensor of a case, in their order.

    Nobody sees the sums themselves: along an axis they are as long as the longest axis of those
    before it; where a tensor is reduced, as long as what the largest has for each of its values.
    """
    lengths, axis, largest = [], 1, 1
    for shape in shapes:
        size = max(1, math.prod(shape))
        axis, largest = max(axis, *shape, 1), max(largest, size)
        lengths.append(max(axis, largest // size))
    return lengths


@dataclass(frozen=True, slots=True)
class Context:
    """The facts of one tensor beside its values; the defaults are for a tensor by itself."""

    # The spacing at 1 of the precision that is judged beside float64.
    epsilon: float = EPSILONS["float32"]
    # S, the largest scale among the tensors of its kind, such as all gradients; None where it has
    # no kind, so that its own scale (its sample's) stands for that.
    kind_scale: float | None = None
    # Samples are judged each by itself where the first axis has this length.
    batch: int | None = None
    stepped: bool = False  # whether an optimizer's steps have touched it
    # How many times noisier than torch's the candidate's operators are known to be that made it.
    noisier: float = 1.0
    # Of a case whose inputs the check has varied: they reach where operators lose digits, and that
    # both sides compute one function is all that is asked.
    varied: bool = False
    # The scale of the scores that a choice's margin is a difference of: its own is chance.
    difference_of: float = 0.0
    # The last array is a teacher-forced run's, which has no float32 run beside it.
    teacher_forced: bool = False
    # NaN at the same places in all runs are left out: the user has said that they are meant.
    allow_nan: bool = False
    # How many of the numbers along the last axis are values, the others sums of them; 0: all are.
    sampled: int = 0
    # How far rounding moves the reference's (common/logs/noise.py); None: it was not measured.
    noise: np.ndarray | None = None
    # Reads the candidate's float32 values of further runs, each from a start beside this one's.
    again: Callable[[], Sequence[np.ndarray]] = tuple

    def samples(self, shape: tuple[int, ...]) -> int:
        """Return how many samples a tensor of this shape has; 1 if they are not told apart."""
        return shape[0] if shape and self.batch == shape[0] and self.batch > 1 else 1


def noisier(stepped: bool, terms: int, adam: float) -> float:
    """Return how many times noisier than torch's Paddle is, by what its code is known to do.

    terms  the length of the longest sum: Paddle adds terms one by one on CPU, torch in a tree, and
           so many terms are as many roundings at most
    adam   how many times noisier its Adam is, as measured (common/verdict/operators.json)
    """
    limit = tolerance("long_sum")
    sums = min(max(1.0, terms / limit), limit / tolerance("precision"))
    return sums * (adam if stepped else 1.0)


BY_ITSELF = Context()
