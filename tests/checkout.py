"""The copy of the checkout that tests change; `make faults` plants its faults in one too."""

from pathlib import Path

from faults import checkout
from faults.checkout import CHECKS, ROOT, change, complete, in_paddles_words

__all__ = ["CHECKS", "ROOT", "Checkout", "change", "complete", "in_paddles_words"]


class Checkout(checkout.Checkout):
    """A copy whose steps 4 and 5 repeat less: `make check` and the faults have all of it.

    steps   of each optimizer in step 4, and of step 5's first; below 10, one self-twin too
    """

    def __init__(self, folder: Path, pairs: tuple[str, ...] = (), steps: int = 3):
        super().__init__(folder, pairs)
        if steps < 10:
            self.replace("step4_backward/setups.py", "STEPS = 10", f"STEPS = {steps}")
            self.replace("step5_train/training.py", "TWINS = 3", "TWINS = 1")
