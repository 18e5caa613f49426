"""Do perturbed weights suit a model?  Its activations must be of the size that they have without.

NumPy only.  Deep models multiply noise: what is right for three layers overflows in fifty.  And
where logits are large, a softmax is 1 for one class: Paddle's on CPU takes no exponent below -64,
so that its cross-entropy never exceeds 64, and gradients behind it are nothing but rounding.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from twincheck.common.pair.pairs import PERTURBED
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.noise import LEVELS, hidden, with_noise

# Allowed of the rms of an inner tensor, times its own without noise: two decades.  One that is
# smaller than 1 there may come to 100: nothing overflows or saturates by that alone.
ACTIVATIONS = 100.0
_INSIDE = ACTIVATIONS, ACTIVATIONS  # at least, and times its own
# Of the largest value of an output.  Logits within ±25 are no more than 50 apart, so that no
# softmax of them reaches Paddle's 64; larger ones must not be the noise's doing.  ResNet-50's are
# near that without noise, and with three times as much its loss is 69 in torch, 55 in Paddle.
OUTPUTS, OUTPUTS_RATIO = 25.0, 1.5
# Of the loss: the same for the mean of a cross-entropy.
LOSS, LOSS_RATIO = 30.0, 1.5


@dataclass
class Sizes:
    """The sizes of a model's tensors in one forward pass."""

    rms: dict[str, float] = field(default_factory=dict)  # of each inner tensor of floats
    output: float = 0.0  # the largest absolute value of all outputs of floats
    loss: float | None = None  # None: the pair has none

    def see(self, key: str, values: np.ndarray) -> None:
        """Take an inner tensor; those of a choice (its margin, its scores) belong to another.

        Where it is large, its positive values stand for all: a mask's are negative, -1e9 or -inf.
        """
        if values.dtype.kind == "f" and values.size and not key.endswith((":margin", ":scores")):
            rms = rms_of(values)
            if not rms <= ACTIVATIONS and not np.isnan(values).any():
                rms = rms_of(values[values > 0.0])
            self.rms[key] = rms

    def see_output(self, values: np.ndarray) -> None:
        """Take an output; one that is not finite makes all of them so."""
        if values.dtype.kind == "f" and values.size:
            with np.errstate(invalid="ignore"):
                self.output = float(np.maximum(self.output, np.abs(values).max()))

    def beyond(self, usual: "Sizes | None" = None) -> str:
        """Say what is larger than is allowed; empty where nothing is.

        usual  the sizes without noise; None: they are not known, and nothing is excused by them
        """
        other = usual or Sizes()
        sizes = [
            (partial(Kind.NOISE_IN_MODULE, key=key), rms, other.rms.get(key, 0.0), *_INSIDE)
            for key, rms in self.rms.items()
        ]
        sizes.append((Kind.NOISE_IN_OUTPUTS, self.output, other.output, OUTPUTS, OUTPUTS_RATIO))
        if self.loss is not None:
            sizes.append((Kind.NOISE_IN_LOSS, self.loss, abs(other.loss or 0.0), LOSS, LOSS_RATIO))
        for said, size, own, least, ratio in sizes:
            if np.isfinite(own) and not abs(size) <= max(least, ratio * own):
                without = "" if usual is None else Kind.WITHOUT_NOISE(size=own)
                return said(size=size, without=without)
        return ""


def rms_of(values: np.ndarray) -> float:
    """The root of the mean of the squares, 0 of no values."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.dot(flat, flat) / max(1, flat.size)))


def suited(
    state: Mapping[str, np.ndarray],
    owners: Mapping[str, Owner],
    seed: int,
    measure: Callable[[Mapping[str, np.ndarray]], Sizes | None],
) -> tuple[dict[str, np.ndarray], float, str, set[str]]:
    """The state with the most noise that suits the model, its level, why it is below 1, and which
    buffers of zeros or ones stay as they are.

    measure  a state -> the sizes of one forward pass; None where the model cannot be run
    The usual noise comes first: a model that it suits costs one forward pass.  The smallest is
    taken where none suits.  Such buffers stay where the model ends in an error or in NaN on others.
    """
    usual, why, left, moved = None, "", set(), hidden(state, owners)
    for level in LEVELS:
        perturbed = with_noise(PERTURBED, state, owners, seed, level=level, left=left)
        sizes = measure(perturbed)
        if moved and not left and not _is_finite(sizes):
            unmoved = with_noise(PERTURBED, state, owners, seed, level=level, left=moved)
            other = measure(unmoved)
            if _is_finite(other):
                perturbed, sizes, left = unmoved, other, moved
        beyond = sizes.beyond() if sizes else ""
        if beyond:
            usual = usual or measure(state)
            beyond = sizes.beyond(usual)
        if not beyond:
            break
        why = why or beyond
    return perturbed, level, why, left


def _is_finite(sizes: Sizes | None) -> bool:
    return sizes is not None and bool(np.isfinite(sizes.output))
