"""The measured noise of a log: how far float32's rounding moves each of its tensors.

A log beside the others, of the reference alone: key -> array (2, n), for moves of the sizes SIZES,
the largest over the runs with moved operators of the distance to the plain float64 run: its root
mean square and its maximum over the whole tensor, then over each sample where there is a batch.
NaN where every run has left the numbers: what rounding does there was not measured.
"""

from collections.abc import Iterator, Mapping

import numpy as np

# One rounding of float32; and eight of float64, of which the runs themselves have one.
SIZES = (2.0**-24, 2.0**-50)
SEEDS = (4, 2)  # runs of each size


def distance(values: np.ndarray, plain: np.ndarray, samples: int) -> np.ndarray:
    """Root mean square and maximum of what a tensor was moved by, whole, then of each sample.

    What has left the numbers is left out; NaN where nothing else is there.
    """
    moved = _moved_by(values, plain).reshape(samples, -1)
    entries = [moved.reshape(1, -1), moved] if samples > 1 else [moved]
    return np.concatenate([size for entry in entries for size in _sizes(entry)])


def _moved_by(values: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """Return how far each value was moved: NaN where it became no number, 0 where it was none."""
    with np.errstate(all="ignore"):
        moved = np.abs(np.subtract(values, plain, dtype=np.float64))
    return np.where(np.isfinite(plain), np.where(np.isfinite(moved), moved, np.nan), 0.0)


def _sizes(moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square and maximum of each row; NaN are left out."""
    top = np.fmax.reduce(moved, axis=1)
    scale = np.where(top > 0.0, top, 1.0)[:, None]
    counts = np.count_nonzero(~np.isnan(moved), axis=1)
    squares = np.nansum(np.square(moved / scale), axis=1)
    with np.errstate(invalid="ignore"):
        return scale[:, 0] * np.sqrt(squares / counts), top


def distances(
    plain: Mapping[str, np.ndarray],
    moved: Mapping[str, np.ndarray],
    batches: Mapping[str, int | None],
) -> Iterator[tuple[str, np.ndarray]]:
    """Key, and the distance of a run from the plain one, of every float tensor that both have."""
    for key in plain:
        values = plain[key]
        if values.dtype.kind != "f" or not values.size or key not in moved:
            continue
        other = moved[key]
        if other.shape != values.shape:
            continue
        prefix = max((p for p in batches if key.startswith(p)), key=len, default="")
        batch = batches.get(prefix) or 1
        samples = batch if values.ndim and values.shape[0] == batch else 1
        yield key, distance(other, values, samples)
