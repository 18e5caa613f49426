"""What Adam makes of a gradient's noise: how far each weight may move by that alone.

Adam divides a gradient by its own size.  Where little or nothing of an element's gradient is more
than noise, a step is therefore of full size, in a direction that rounding decides: the two sides'
weights part there, and nothing is wrong.  How far is no guess: each run has logged its moments, and
what a step makes of them is known.  NumPy only.
"""

from collections.abc import Callable

import numpy as np

from common.logs.key import Key
from common.verdict.tolerances import tolerance

_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # as both frameworks' Adam and step 4's set-ups have them
THROUGH_ADAM = "noise through Adam"  # the excuse of a row
Get = Callable[[str, str], np.ndarray | None]  # (run, key) -> the logged value


def direction(moment1: np.ndarray, moment2: np.ndarray, step: int) -> np.ndarray:
    """What Adam's step number `step`, from 1, multiplies its learning rate with."""
    first, second = (
        np.asarray(moment, np.float64) / (1.0 - beta**step)
        for moment, beta in zip((moment1, moment2), _BETAS, strict=True)
    )
    return first / (np.sqrt(np.maximum(second, 0.0)) + _EPSILON)


def step_of(key: Key) -> int | None:
    """The number of the optimizer step that a key is of, from 0; None for no step."""
    last = key.run.rstrip("/").rpartition("/")[2]
    return int(last) if last.isdecimal() else None


class AdamNoise:
    """How far a parameter's weights may part, step by step, by the noise of their gradients.

    get      reads a log: ref32, cand32, ref64, cand64 or, on the reference's values, local64
    """

    def __init__(self, get: Get):
        self._get = get
        self._sums: dict[tuple[str, bool], tuple[int, np.ndarray, np.ndarray]] = {}

    def excuse(self, key: Key, arrays: list, local: bool = False) -> int:
        """Take what Adam made of the gradients' noise out of a weight's arrays; how many values.

        arrays   ref32, cand32, ref64 and cand64 (or local64): the candidate's are replaced
        local    the step started from the reference's weights
        """
        step = step_of(key)
        if key.kind != "weight" or step is None:
            return 0
        found = self._allowed(key, step, local, arrays[2].shape)
        if found is None:
            return 0
        gap, noise = found
        t32, p32, t64, p64 = arrays
        arrays[3] = _nearer(p64, t64, gap)
        # The float32 run's own noise is measured from the float64 run's own values.
        arrays[1] = _nearer(p32, p64, noise) + (arrays[3] - p64) if not local else p32
        arrays[1] = arrays[1].astype(p32.dtype)
        moved = (arrays[3] != p64) | (np.abs(p32 - p64) > 0) & (noise > _small(noise, p64))
        return int(np.count_nonzero(moved))

    def _allowed(self, key: Key, step: int, local: bool, shape):
        """Elementwise: how far float64 runs may part, and the candidate's float32 from its own."""
        text = str(key)
        setup = text[: text.rindex(f"{step:03d}/weight/")]
        name = f"{setup}{key.site}"
        done, gap, noise = self._sums.get((name, local), (-1, np.zeros(shape), np.zeros(shape)))
        if local:
            done, gap, noise = step - 1, np.zeros(shape), np.zeros(shape)
        if done > step:
            return None
        for i in range(done + 1, step + 1):
            one = self._one_step(f"{setup}{i:03d}/", key.site, i, local, shape)
            if one is None:
                return None
            gap, noise = gap + one[0], noise + one[1]
        self._sums[name, local] = (step, gap, noise)
        return gap, noise

    def _one_step(self, prefix: str, name: str, step: int, local: bool, shape):
        """The same of one step."""
        lr = self._get("ref64", f"{prefix}lr")
        runs = ("ref32", "cand32", "ref64", "local64" if local else "cand64")
        moments = [
            [self._get(run, f"{prefix}{kind}/{name}") for kind in ("moment1", "moment2")]
            for run in runs
        ]
        if lr is None or any(m is None or m.shape != shape for pair in moments for m in pair):
            return None
        moments = [[np.asarray(m, np.float64) for m in pair] for pair in moments]
        sound = np.ones(shape, bool)
        for (t32, p32, t64, p64), scale in zip(zip(*moments, strict=True), (1.0, 2.0), strict=True):
            seen = np.maximum(np.abs(t32 - t64), 0.0 if local else np.abs(p32 - p64))
            # float32 may have come out without an error in an element, by chance: its noise is then
            # that of the others.
            seen = np.maximum(seen, np.median(seen)) if seen.size else seen
            # The float64 moments themselves must agree, as rounding's do, in this very element.
            sound &= np.abs(p64 - t64) <= scale * tolerance("gap") * seen
        t32, p32, t64, p64 = (direction(*pair, step + 1) for pair in moments)
        rate = abs(float(lr))
        return rate * np.where(sound, np.abs(p64 - t64), 0.0), rate * np.abs(p32 - p64)


def _small(noise: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What is no more than float32's own spacing at these values."""
    return tolerance("float32_epsilon") * np.abs(values)


def _nearer(values: np.ndarray, to: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The values, each moved towards another by so much, and never past it."""
    off = np.asarray(values, np.float64) - to
    return to + np.sign(off) * np.maximum(np.abs(off) - by, 0.0)
