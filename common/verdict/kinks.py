"""Gradients that a ReLU's kink makes noisy: a value near 0 that float32 has on its other side.

Of a few hundred thousand activations some lie nearer to 0 than float32's noise.  Where a run's
noise puts one on the other side of 0, its ReLU passes a gradient that the other runs stop, of full
size, and no function is wrong.  Nobody can tell beforehand on which side that happens: torch's
float32 may have none of them, and Paddle's one.  Such an error is that of one value; it then goes
back through all layers before.  NumPy only.
"""

from collections.abc import Sequence

import numpy as np

from common.logs.key import Key
from common.verdict.row import Row
from common.verdict.tolerances import tolerance

EXCUSE = "a kink"
_ZEROS = (0.02, 0.998)  # the part of a tensor that a ReLU has made exactly 0


class Kinks:
    """What the tensors of a case have shown of them so far."""

    def __init__(self):
        self._rectified = False  # whether some tensor is zero in part
        self._expected = 0.0  # activations that float32's noise may put across 0
        self._part = 0.0  # how large a part of a gradient such an error was, where one was seen

    def state(self) -> list[object]:
        """What they have shown, for JSON."""
        return [bool(self._rectified), float(self._expected), float(self._part)]

    def restore(self, state: Sequence) -> None:
        """Remember what `state` gave."""
        self._rectified, self._expected, self._part = state

    def see(self, row: Row, values: np.ndarray) -> None:
        """Take in a tensor of the forward pass: its row, and the reference's float64 values."""
        zeros = values.size - np.count_nonzero(values)
        self._rectified |= _ZEROS[0] * values.size <= zeros <= _ZEROS[1] * values.size
        if row.scale and row.noise_cand is not None:
            part = max(row.noise_cand, row.noise_ref or 0.0) / row.scale
            self._expected += min(part, 1.0) * row.size

    def excuse(self, row: Row, key: Key, numbers: int) -> bool:
        """Whether a kink explains that the candidate's float32 gradient is less exact; says so.

        numbers  of how many numbers the row was judged
        The first of them is a few values of one tensor; what comes back from there is no larger a
        part of the gradients before.  No probe looks into an optimizer's steps.
        """
        if not (self._rectified and self._expected >= tolerance("kinks_expected")):
            return False
        if row.scale is None or not row.scale > 0.0:
            return False
        part = row.noise_cand / row.scale
        if key.is_step:
            found = part <= tolerance("kink_in_step")
        elif self._part:
            found = part <= tolerance("kink_spread") * self._part
        else:
            few = max(1.0, tolerance("kink_values") * numbers)
            found = bool(row.beyond) and row.beyond <= few and part <= 1.0
            self._part = part if found else 0.0
        if found:
            row.verdict, row.excuse, row.origin = "ROUNDING", EXCUSE, False
            row.beyond = row.worst_index = row.worst_ref = row.worst_cand = row.sample = None
            row.of_sums = 0
            row.note = (
                f"paddle's float32 noise is {part:.1e} of the gradient: as much as one activation "
                "makes that float32's noise puts on the other side of 0"
            )
        return found
