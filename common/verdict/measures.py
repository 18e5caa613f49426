"""What the rule measures of a tensor, and where its worst element is.

NumPy only; tensors are passed over in blocks, so that no float64 copy of one is held.
"""

from dataclasses import dataclass

import numpy as np

from twincheck.common.verdict.row import Row

BLOCK = 1 << 15  # elements that are worked on at a time: a few float64 buffers stay in the cache


@dataclass(frozen=True, slots=True)
class Measures:
    """Sizes of a tensor's four differences, measured in several ways: an entry for each way.

    First the root mean square over the whole tensor, then its maximum; of a batch each sample's
    root mean square and then each sample's maximum as well.
    """

    gap: np.ndarray  # |t64 - p64|
    noise_ref: np.ndarray  # |t32 - t64|
    noise_cand: np.ndarray  # |p32 - p64|
    scale: np.ndarray  # |t64|
    cand_scale: np.ndarray  # |p64|
    counts: np.ndarray  # how many values each entry is measured over
    samples: int  # how many samples there are; 1 where they are not told apart

    def name_of(self, entry: int) -> str:
        """How an entry was measured: `rms` or `max`."""
        return "rms" if entry == 0 or 2 <= entry < 2 + self.samples else "max"

    def sample_of(self, entry: int) -> int | None:
        """The sample that an entry was measured over; None for the whole tensor."""
        return (entry - 2) % self.samples if entry >= 2 else None


def measure(arrays: list[np.ndarray], samples: int, least_scale: float = 0.0) -> Measures:
    """Measure t32, p32, t64 and p64: finite floats of one shape, samples along the first axis.

    least_scale  the least that counts as the tensor's scale
    """
    rms, maximum = _gather(arrays, samples)
    largest = min(float(maximum.max()), np.finfo(np.float64).max)  # a difference may be infinite
    if largest > 0.0 and not 1e-130 < largest < 1e130:
        # Squares would leave float64's range.  Powers of two change no digit.
        by = int(np.frexp(largest)[1])
        scaled = [np.ldexp(array.astype(np.float64), -by) for array in arrays]
        rms, maximum = (np.ldexp(found, by) for found in _gather(scaled, samples))
    whole_rms = np.sqrt(np.mean(np.square(rms / (largest or 1.0)), axis=1)) * largest
    columns = [whole_rms, maximum.max(axis=1)]
    counts = [arrays[0].size] * 2
    if samples > 1:
        columns += [*rms.T, *maximum.T]
        counts += [arrays[0].size // samples] * 2 * samples
    gap, noise_ref, noise_cand, scale, cand_scale = np.array(columns).T
    scale = np.maximum(scale, least_scale)
    return Measures(gap, noise_ref, noise_cand, scale, cand_scale, np.array(counts), samples)


def _gather(arrays: list[np.ndarray], samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Root mean squares and maxima, (5, samples) each, in one pass over four arrays.

    The five are gap, torch's noise, paddle's noise, |t64| and |p64|.
    """
    t32, p32, t64, p64 = (array.reshape(samples, -1) for array in arrays)
    width = t32.shape[1]
    rows, columns = min(samples, max(1, BLOCK // width)), min(width, BLOCK)
    buffer = np.empty((5, rows, columns))
    squares, maximum = np.zeros((5, samples)), np.zeros((5, samples))
    for top in range(0, samples, rows):
        here = slice(top, top + rows)
        for left in range(0, width, columns):
            a, b, c, d = (values[here, left : left + columns] for values in (t32, p32, t64, p64))
            five = buffer[:, : len(a), : a.shape[1]]
            np.subtract(c, d, out=five[0], dtype=np.float64)
            np.subtract(a, c, out=five[1], dtype=np.float64)
            np.subtract(b, d, out=five[2], dtype=np.float64)
            five[3], five[4] = c, d
            np.abs(five, out=five)
            squares[:, here] += [np.einsum("ij,ij->i", one, one) for one in five]
            np.maximum(maximum[:, here], five.max(axis=2), out=maximum[:, here])
    return np.sqrt(squares / width), maximum


def rms(values: np.ndarray) -> float:
    """Root of the mean square in float64, safe for squares that float64 cannot hold."""
    values = values.astype(np.float64)
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return 0.0
    return largest * float(np.sqrt(np.mean(np.square(values / largest))))


def scale_of(array: np.ndarray) -> float:
    """The root mean square of a tensor of floats; 0 for any other, and for an empty one.

    NaN and infinities count as the rule takes them out: as 0.
    """
    if not array.size or array.dtype.kind != "f":
        return 0.0
    with np.errstate(all="ignore"):
        scale = rms(array)
        return scale if np.isfinite(scale) else rms(np.where(np.isfinite(array), array, 0.0))


def locate(row: Row, difference: np.ndarray, ref: np.ndarray, cand: np.ndarray) -> None:
    """How many elements are beyond what was allowed, and which is worst (in the sample, if any)."""
    first = ()
    if row.sample is not None:
        first, difference = (row.sample,), difference[row.sample]
    row.beyond = int(np.count_nonzero(~(difference <= row.allowed)))
    index = np.unravel_index(np.argmax(difference), difference.shape)
    row.worst_index = first + tuple(int(i) for i in index)
    row.worst_ref, row.worst_cand = float(ref[row.worst_index]), float(cand[row.worst_index])
