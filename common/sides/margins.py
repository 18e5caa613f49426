"""By how much a discrete choice was won."""

import numpy as np


def margins(scores: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """By how much each choice won: the distance to the scores next to it in their order.

    scores (..., N); choice (...) of a largest score or (..., k) of the k largest in their order.
    Returns the shape of `choice`, finite throughout: a score without another beside it has itself
    for a margin, and infinite scores have 0 among each other.
    """
    count = scores.shape[-1]
    k = choice.shape[-1] if choice.ndim == scores.ndim else 1
    if k < count:
        scores = np.partition(scores, count - k - 1, axis=-1)[..., count - k - 1 :]
    ordered = np.sort(scores, axis=-1)[..., ::-1]  # the k largest, and the next
    with np.errstate(invalid="ignore"):
        gaps = ordered[..., :-1] - ordered[..., 1:]
    size = np.where(np.isfinite(ordered), np.abs(ordered), 0)[..., :k]
    gaps = np.where(np.isnan(gaps), 0, gaps)
    above = np.concatenate([np.full_like(size[..., :1], np.inf), gaps[..., : k - 1]], axis=-1)
    below = gaps[..., :k]
    if below.shape[-1] < k:
        below = np.concatenate([below, np.full_like(size[..., :1], np.inf)], axis=-1)
    margin = np.minimum(above, below)
    margin = np.where(np.isfinite(margin), margin, size).astype(scores.dtype)
    return margin if choice.ndim == scores.ndim else margin[..., 0]
