"""What a judge remembers of the tensors of one case, to know what a later one may owe to them.

`Terms`: how long its sums may be.  `Inherited`: how noisy what it was computed from was.
`Gauges`: which weights only noise moves.  NumPy only.
"""

import numpy as np

from common.verdict.tolerances import tolerance


class Terms:
    """The longest sum that a tensor of a case may be made of, from the shapes logged before it.

    Nobody sees the sums themselves: along an axis they are as long as the longest axis; where a
    tensor is reduced, as long as what the largest tensor has for each of its values.
    """

    def __init__(self):
        self.axis, self.size = 1, 1

    def after(self, array: np.ndarray | None) -> int:
        """The length for this array, which counts for those after it."""
        if array is None or not array.size:
            return self.axis
        self.axis = max(self.axis, *array.shape, 1)
        self.size = max(self.size, array.size)
        return max(self.axis, self.size // array.size)


class Inherited:
    """How noisy the candidate's float32 was in the tensors of a case so far, and in which sample.

    Ratios are of its noise to what is allowed for the tensor by itself.  Noise goes on with the
    values: where one vector is 20 times as noisy by luck, so is all that is computed from it, and
    that is not the fault of the modules after it.  What a batch's samples have stays theirs.
    """

    def __init__(self):
        self._whole = 0.0  # of any tensor
        self._mixed = 0.0  # of tensors in which no sample can be told from another
        self._samples: dict[int, np.ndarray] = {}  # length of the batch -> of each sample

    def excuse(self, samples: int) -> np.ndarray:
        """Factors on what is allowed, 1 or more, in the order of the verdict's measures.

        That is the whole tensor's rms and maximum, then each sample's rms, each sample's maximum.
        """
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


class Gauges:
    """The elements of parameters whose gradient is zero in exact arithmetic.

    Adam divides a gradient by its own size, so that a step makes of noise what it makes of any
    other gradient: such elements' weights then move at random, and nothing depends on them.
    """

    def __init__(self):
        self._found: dict[str, np.ndarray] = {}  # parameter -> where it is noise

    def find(self, parameter: str, arrays) -> None:
        """Look at a parameter's gradient: ref32, cand32, ref64, cand64, floats of one shape."""
        t32, p32, t64, p64 = arrays
        with np.errstate(all="ignore"):
            noise = float(np.maximum(np.abs(t32 - t64), np.abs(p32 - p64)).max(initial=0.0))
            exact = np.maximum(np.abs(t64), np.abs(p64))
            # What is 0 in float32 too has no noise: it is not moved at all.
            found = (exact <= tolerance("noise_only") * noise) & ((t32 != 0) | (p32 != 0))
        if found.any():
            self._found[parameter] = found

    def excuse(self, parameter: str, arrays: list) -> int:
        """Put the reference's values where a step moved both sides by noise; returns how many."""
        found = self._found.get(parameter)
        t32, p32, t64, p64 = arrays
        if found is None or any(array.shape != found.shape for array in arrays):
            return 0
        allowed = tolerance("gauge") * float(np.abs(t32 - t64)[found].max())
        off = found & (p64 != t64)
        off &= (np.abs(p64 - t64) <= allowed) & (np.abs(p32 - p64) <= allowed)
        arrays[1], arrays[3] = np.where(off, t32, p32), np.where(off, t64, p64)
        return int(np.count_nonzero(off))
