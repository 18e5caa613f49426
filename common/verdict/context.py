"""What is known of a tensor beside its values, and what is remembered of a case to know it.

`Context` is what the rule is given.  `LongestSum` and `InheritedNoise` take in the tensors of one
case in their order, for what a later one may owe to them.  NumPy only.
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


class InheritedNoise:
    """How noisy the candidate's float32 was in the tensors of a case so far, and in which sample.

    Ratios are of its noise to what is allowed for the tensor by itself.  Noise goes on with the
    values: where one vector is 20 times as noisy by luck, so is all that is computed from it, and
    that is not the fault of the modules after it.  What a batch's samples have stays theirs.
    """

    def __init__(self):
        self._whole = 0.0  # of any tensor
        self._mixed = 0.0  # of tensors in which no sample can be told from another
        self._samples: dict[int, np.ndarray] = {}  # length of the batch -> of each sample

    def factors(self, samples: int) -> np.ndarray:
        """Factors on what is allowed, 1 or more, in the order of the measures."""
        whole = np.full(2, self._whole)
        if samples > 1:
            each = self._samples.get(samples, np.full(samples, self._whole))
            each = np.maximum(each, self._mixed)
            whole = np.concatenate([whole, each, each])
        return np.clip(tolerance("inherited") * whole, 1.0, tolerance("inherited_most"))

    def remember(self, samples: int, ratios: np.ndarray) -> None:
        """Take in a tensor's ratios, in the same order."""
        self._whole = max(self._whole, float(ratios.max()))
        if samples > 1:
            each = ratios[2:].reshape(2, samples).max(axis=0)
            self._samples[samples] = np.maximum(self._samples.get(samples, 0.0), each)
        else:
            self._mixed = max(self._mixed, float(ratios.max()))

    def state(self) -> list[object]:
        """What is remembered, for JSON."""
        samples = {str(count): ratios.tolist() for count, ratios in self._samples.items()}
        return [self._whole, self._mixed, samples]

    def restore(self, state: Sequence) -> None:
        """Remember what `state` gave."""
        self._whole, self._mixed, samples = state
        self._samples = {int(count): np.array(ratios) for count, ratios in samples.items()}


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
    # How many terms each of its values is the sum of, where that is known; else 0.
    terms: int = 0
    # The scale of what it was computed from, of which nearly nothing may be left.
    fed_scale: float = 0.0
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
    # What is remembered of the noise of the tensors before it; the rule adds this one's.
    inherited: InheritedNoise | None = None

    def samples(self, shape: tuple[int, ...]) -> int:
        """How many samples a tensor of this shape has; 1 where they are not told apart."""
        return shape[0] if shape and self.batch == shape[0] and self.batch > 1 else 1


BY_ITSELF = Context()
