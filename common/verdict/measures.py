"""What the rule measures of a tensor, and where its worst element is.

NumPy only; tensors are passed over in blocks, so that no float64 copy of one is held.
"""

from dataclasses import dataclass

import numpy as np

from twincheck.common.verdict.row import Row

BLOCK = 1 << 15  # elements that are worked on at a time: a few float64 buffers stay in the cache
_SMALL = 1 << 12  # elements of which five float64 buffers stay there


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
    if t32.size <= _SMALL:  # most tensors: all five at once, and the same sums bit by bit
        five = np.empty((5, samples, width))
        np.subtract(t64, p64, out=five[0], dtype=np.float64)
        np.subtract(t32, t64, out=five[1], dtype=np.float64)
        np.subtract(p32, p64, out=five[2], dtype=np.float64)
        five[3], five[4] = t64, p64
        np.abs(five, out=five)
        squares = np.einsum("kij,kij->ki", five, five)
        return np.sqrt(squares / width), np.maximum.reduce(five, axis=2)
    rows, columns = max(1, BLOCK // width), min(width, BLOCK)
    buffer = np.empty((rows, columns))
    squares, maximum = np.zeros((5, samples)), np.zeros((5, samples))
    differences = ((t64, p64), (t32, t64), (p32, p64), (t64, None), (p64, None))
    for top in range(0, samples, rows):
        for left in range(0, width, columns):
            part = np.s_[top : top + rows, left : left + columns]
            here = slice(top, top + rows)
            for i, (a, b) in enumerate(differences):
                block = buffer[: len(a[part]), : a[part].shape[1]]
                if b is None:
                    np.abs(a[part], out=block)
                else:
                    np.subtract(a[part], b[part], out=block, dtype=np.float64)
                    np.abs(block, out=block)
                squares[i, here] += np.einsum("ij,ij->i", block, block)
                np.maximum(maximum[i, here], block.max(axis=1), out=maximum[i, here])
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
