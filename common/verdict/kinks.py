"""Gradients that a kink makes noisy: of a ReLU, or of a window's largest value.

Of a few hundred thousand activations some lie nearer to 0 than float32's noise.  Where a run's
noise puts one on the other side of 0, its ReLU passes a gradient that the other runs stop, of full
size, and no function is wrong.  Nobody can tell beforehand on which side that happens: torch's
float32 may have none of them, and Paddle's one.  Where two values of a pooling window are nearly
alike, float32 takes the other one likewise, and the gradient goes there.  Such an error is that of
one value; it then goes back through all layers before.  In an optimizer's step it changes the
weights, and all steps behind go another way; both float64 runs still show whether they are right.
NumPy only.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common.logs.key import Key
from common.verdict.adam import step_of
from common.verdict.row import Row
from common.verdict.tolerances import tolerance

EXCUSE = "a kink"
AFTER_A_KINK = "float32 goes another way from there, and the float64 runs agree"
_ZEROS = (0.02, 0.998)  # the part of a tensor that a ReLU has made exactly 0


class InStep(NamedTuple):
    """A tensor of an optimizer's step: the candidate's in float32 and in float64."""

    single: np.ndarray
    double: np.ndarray
    noise: float  # the largest error that the reference's float32 has in it


class Kinks:
    """What the tensors of a case have shown of them so far."""

    def __init__(self):
        self._rectified = False  # whether some tensor is zero in part
        self._expected = 0.0  # activations that float32's noise may put across 0
        self._part = 0.0  # how large a part of a gradient such an error was, where one was seen
        self._moved = False  # whether it was seen at a window's largest value
        # Set-up of an optimizer -> the step in which one was found, and what shows it.
        self._steps: dict[str, tuple[int, str]] = {}
        self._looked: set[str] = set()  # steps that were looked at as a whole

    def state(self) -> list[object]:
        """What they have shown, for JSON."""
        steps = {setup: list(found) for setup, found in self._steps.items()}
        said = [bool(self._rectified), float(self._expected), float(self._part)]
        return [*said, steps, bool(self._moved)]

    def restore(self, state: Sequence) -> None:
        """Remember what `state` gave."""
        self._rectified, self._expected, self._part, *more = state
        found = more[0].items() if more else ()  # earlier bundles have no steps,
        self._moved = bool(more[1:] and more[1])  # and know of no windows
        self._steps = {setup: (int(step), str(name)) for setup, (step, name) in found}

    def see(self, row: Row, values: np.ndarray) -> None:
        """Take in a tensor of the forward pass: its row, and the reference's float64 values."""
        zeros = values.size - np.count_nonzero(values)
        self._rectified |= _ZEROS[0] * values.size <= zeros <= _ZEROS[1] * values.size
        if row.scale and row.noise_cand is not None:
            part = max(row.noise_cand, row.noise_ref or 0.0) / row.scale
            self._expected += min(part, 1.0) * row.size

    def see_gradient(self, row: Row, single: np.ndarray, double: np.ndarray) -> None:
        """Take in a gradient of the model's own pass: the candidate's, in float32 and float64.

        A window's largest value has all of the window's gradient.  Where float32 takes another
        value of the window, that much is missing at one place and stands at another: exactly 0 in
        one of the runs, and the sum is the same.
        """
        part = (row.noise_cand or 0.0) / row.scale if row.scale else 0.0
        if not tolerance("kink_in_step") < part <= 1.0:
            return
        away = np.subtract(single, double, dtype=np.float64)
        off = np.abs(away) > tolerance("kink_off") * row.scale
        taken = int(np.count_nonzero(off & ((single == 0) != (double == 0))))
        kept = abs(float(away[off].sum())) <= tolerance("kink_off") * float(np.abs(away[off]).sum())
        few = tolerance("kink_windows") * off.size
        if kept and np.count_nonzero(off) <= min(2 * taken, few):
            self._part, self._moved = max(self._part, part), True

    def excuse(self, row: Row, key: Key, numbers: int, look: Callable[[], str]) -> bool:
        """Whether a kink explains that the candidate's float32 gradient is less exact; says so.

        numbers  of how many numbers the row was judged
        look     says what shows a kink in the whole of an optimizer's step, as `shown_by` does
        The first of them is a few values of one tensor; what comes back from there is no larger a
        part of the gradients before.  No probe looks into an optimizer's steps.
        """
        expected = self._rectified and self._expected >= tolerance("kinks_expected")
        if not (expected or self._moved):
            return False
        part = row.noise_cand / row.scale if row.scale else math.inf
        if key.is_step:
            found = part <= tolerance("kink_in_step")
            note = self._as_large(part) if found else self._since(key, look)
        else:
            note = self._as_large(part) if self._in_pass(row, part, numbers) else ""
        if note:
            row.verdict, row.excuse, row.origin, row.note = "ROUNDING", EXCUSE, False, note
            row.beyond = row.worst_index = row.worst_ref = row.worst_cand = row.sample = None
            row.of_sums = 0
        return bool(note)

    def _in_pass(self, row: Row, part: float, numbers: int) -> bool:
        """Whether a gradient of the model's own pass is as far off as a kink makes it."""
        if self._part:
            return part <= tolerance("kink_spread") * self._part
        few = max(1.0, tolerance("kink_values") * numbers)
        found = bool(row.beyond) and row.beyond <= few and part <= 1.0
        self._part = part if found else 0.0
        return found

    def _as_large(self, part: float) -> str:
        """What to say of a gradient of which so large a part is noise."""
        noise = f"paddle's float32 noise is {part:.1e} of the gradient: as much as "
        if self._moved:
            return noise + "comes of a window's largest value that float32 takes from another place"
        return noise + "one activation makes that float32's noise puts on the other side of 0"

    def _since(self, key: Key, look: Callable[[], str]) -> str:
        """What to say of a step in which, or before which, a kink was found; "" if none was."""
        setup, step = key.run.partition("/")[0], step_of(key)
        if setup not in self._steps and key.prefix not in self._looked:
            self._looked.add(key.prefix)
            shown = look()
            if shown:
                self._steps[setup] = step, shown
        first, shown = self._steps.get(setup, (step + 1, ""))
        if step < first:
            return ""
        return (
            f"in step {first} of {setup} paddle's float32 has an activation on the other side of "
            f"0, which {shown} shows; {AFTER_A_KINK}"
        )


def shown_by(loss: InStep, gradients: Mapping[str, InStep]) -> str:
    """What shows a kink in an optimizer's step: "" where what is off is no kink's.

    gradients  of each parameter, in the model's order
    The loss is right, and so are the gradients of what is computed behind the activation.  The last
    that is off has a value or a row of them off: that of the activation's channel.
    """
    if not gradients or _off(loss, 0.0, loss.double):
        return ""
    largest = max(float(np.abs(of.double).max(initial=0.0)) for of in gradients.values())
    shown = ""
    for name, of in gradients.items():
        size = of.double.size
        mean = float(np.sqrt(np.mean(np.square(of.double)))) if size else 0.0
        off = _off(of, tolerance("kink_off") * mean, largest)
        if off:
            row = size // of.double.shape[0] if of.double.ndim else 1
            few = max(1.0, row, tolerance("kink_values") * size)
            said = f"the gradient of {name} ({off} of {size} values)"
            shown = said if off <= few and np.isfinite(of.single).all() else ""
    return shown


def _off(of: InStep, most: float, scale: float | np.ndarray) -> int:
    """How many values of the candidate's are further off in float32 than a right one is.

    In a deep model the reference's float32 is far off too, where a value of its own went another
    way in a step before; that says nothing of the candidate's.
    """
    least = float(np.abs(scale).max(initial=0.0)) * tolerance("kink_least")
    most = max(most, least, tolerance("kink_beyond") * of.noise)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        right = np.abs(of.single - of.double) <= most
    return int(np.count_nonzero(~right))
