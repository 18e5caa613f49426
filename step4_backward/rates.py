"""Learning rates that suit a model: those of the set-ups, lowered where a model cannot bear them.

NumPy only, shared by both sides.  Ten steps show that both sides take the same ones only while
rounding stays rounding: where the loss overflows, or two runs that differ in the last bit of
float32 end far apart, correct sides differ as much as wrong ones.
"""

from collections.abc import Sequence

import numpy as np

from twincheck.common.system.reasons import Kind

# On the learning rates of a set-up, tried in this order.
FACTORS = tuple(1.0 / 10**k for k in range(17))
# Allowed of the loss, times its first; a loss below the second number is no harm.
LOSS_RATIO, LOSS = 3.0, 3.0
# A run that magnifies rounding overshoots: where a loss is above an earlier one by more than this
# part of the largest, a second run from a start off by float32's rounding tells how much.
RISE = 0.1
# What that may move a loss, of the largest: as much noise as excuses a gap (`cap`, in
# common/verdict/tolerances.json).
MOVED = 1e-4
# Ten steps at a momentum of 0.9 go 41 times as far as the first.  A large model's passes are dear:
# where the first gradient says that so much would lower the loss by more than so many times itself
# (or `LOSS`, if it is smaller), no second step is taken.  At 30 ResNet-18 still needs a second run,
# from a start nearby, to be sure.
TEN_STEPS, FALL = 41.0, 3.0


class Watch:
    """A watch of what one set-up's steps do to the loss, as they are taken."""

    def __init__(self):
        self.losses: list[float] = []
        self.problem = ""  # in words; empty where the rate suits the model
        self.part = 1.0  # of this rate, the most that may suit it

    def see(self, loss: float) -> None:
        """Take a step's loss; without a first that is finite there is nothing to judge by."""
        self.losses.append(loss)
        first = self.losses[0]
        allowed = max(LOSS, LOSS_RATIO * abs(first))
        if not self.problem and np.isfinite(first) and not abs(loss) <= allowed:
            step = len(self.losses) - 1
            self.problem = Kind.LOSS_GROWS(first=first, loss=loss, step=step)

    def see_slope(self, fall: float) -> None:
        """Take by how much the first step would lower the loss, were that straight."""
        allowed = FALL * max(LOSS, abs(self.losses[0]))
        fall *= TEN_STEPS
        if not self.problem and np.isfinite(fall) and fall > allowed:
            self.problem = Kind.LOSS_WOULD_FALL(first=self.losses[0], fall=fall)
            self.part = allowed / fall

    @property
    def overshoots(self) -> bool:
        """True where the loss rises so much that rounding may grow with it."""
        lowest = np.minimum.accumulate(self.losses)
        rise = float(np.max(np.subtract(self.losses, lowest), initial=0.0))
        return not self.problem and rise > RISE * float(np.max(np.abs(self.losses)))

    def compare(self, losses: Sequence[float]) -> None:
        """Take the losses of a run from a start off by float32's rounding."""
        off, largest = np.abs(np.subtract(self.losses, losses)), np.max(np.abs(self.losses))
        if not off.max() <= MOVED * largest:
            self.problem = Kind.LOSS_MOVED_BY_START(off=off.max(), largest=largest)


def moved_in_float32(losses: Sequence[float], exact: Sequence[float]) -> str:
    """Say why a rate does not suit the model by its float32 and float64 losses; "" if it does.

    Where float32 has lost its digits after a few steps, float64 may have lost as many, and how many
    no longer shows.  What is off before the first step is not the rate's doing.
    """
    off, largest = np.abs(np.subtract(losses, exact)), np.max(np.abs(exact))
    if not np.isfinite(off).all() or off.max() <= max(MOVED * largest, 10 * off[0]):
        return ""
    return Kind.LOSS_MOVED_IN_FLOAT32(off=off.max(), largest=largest)
