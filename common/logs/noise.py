"""The measured noise of a log: how far float32's rounding moves each of its tensors.

A log beside the others, of the reference alone: key -> array (2, n), for moves of the sizes SIZES,
the largest over the runs with moved operators of the distance to the plain float64 run: its root
mean square and its maximum over the whole tensor, then over each sample where there is a batch.
"""

from collections.abc import Iterator, Mapping

import numpy as np

# One rounding of float32; and eight of float64, of which the runs themselves have one.
SIZES = (2.0**-24, 2.0**-50)
SEEDS = (4, 2)  # runs of each size


def distance(values: np.ndarray, plain: np.ndarray, samples: int) -> np.ndarray:
    """Root mean square and maximum of what a tensor was moved by, whole, then of each sample."""
    with np.errstate(all="ignore"):
        moved = np.abs(np.subtract(values, plain, dtype=np.float64)).reshape(samples, -1)
        moved = np.where(np.isfinite(plain.reshape(samples, -1)), moved, 0.0)
        top = moved.max(axis=1)
        scale = np.where(top > 0.0, top, 1.0)
        rms = scale * np.sqrt(np.square(moved / scale[:, None]).mean(axis=1))
    largest = max(float(top.max()), 1e-300)
    whole = largest * np.sqrt(np.square(rms / largest).mean())
    if samples == 1:
        return np.array([whole, top[0]])
    return np.concatenate([[whole, top.max()], rms, top])


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
