"""What is known of a tensor beside its values, and what is remembered of a case to know it.

`Context` is what the rule is given.  `LongestSum` takes in the tensors of one case in their order,
for what a later one may owe to them.  NumPy only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.verdict.tolerances import tolerance


class LongestSum:
    """The longest sum that a tensor of a case may be made of, from the shapes logged before it.

    Nobody sees the sums themselves: along an axis they are as long as the longest axis; where a
    tensor is reduced, as long as what the largest tensor has for each of its values.
    """

    def __init__(self):
        self.axis, self.size = 1, 1

    def after(self, shape: Sequence[int] | None) -> int:
        """The length for a tensor of this shape, which counts for those after it."""
        size = 0 if shape is None else math.prod(shape)
        if not size:
            return self.axis
        self.axis = max(self.axis, *shape, 1)
        self.size = max(self.size, size)
        return max(self.axis, self.size // size)

    def state(self) -> list[int]:
        """What is remembered, for JSON."""
        return [self.axis, self.size]

    def restore(self, state: Sequence[int]) -> None:
        """Remember what `state` gave."""
        self.axis, self.size = state


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of one tensor beside its values; the defaults are for a tensor by itself."""

    # The spacing at 1 of the precision that is judged beside float64.
    epsilon: float = tolerance("float32_epsilon")
    # S, the largest scale among the tensors of its kind, such as all gradients; None where it has
    # no kind, so that its own scale (its sample's) stands for that.
    kind_scale: float | None = None
    # Samples are judged each by itself where the first axis has this length.
    batch: int | None = None
    # The kind of what an optimizer's steps have touched, such as `weight` or `moment2`.
    optimizer: str = ""
    # How many terms the longest sum has that its values may be made of.
    longest_sum: int = 1
    # The scale of what it is a small difference of, as a margin is of scores: its own is chance.
    difference_of: float = 0.0
    # The last array is a single-step run's, which has no float32 run beside it.
    single_step: bool = False
    # NaN at the same places in all runs are left out: the user has said that they are meant.
    allow_nan: bool = False
    # How far a constant kept in float32 may bring it, as a part of its scale; None: the usual.
    constant: float | None = None
    # How many of the numbers along the last axis are values, the others sums of them; 0: all are.
    sampled: int = 0
    # How far rounding moves the reference's (common/logs/noise.py); None: it was not measured.
    noise: np.ndarray | None = None
    # The candidate's float32 values of further runs, each from a start beside this one's.
    again: Sequence[np.ndarray] = ()

    def samples(self, shape: tuple[int, ...]) -> int:
        """How many samples a tensor of this shape has; 1 where they are not told apart."""
        return shape[0] if shape and self.batch == shape[0] and self.batch > 1 else 1


BY_ITSELF = Context()
