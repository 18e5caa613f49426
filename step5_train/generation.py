"""Generation, what both sides share: the request, and how a token is chosen from logits.

NumPy only: the check writes the request, the twins read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.pair.data import save_arrays

STEM = "request"  # of the file in a model's data folder
SITE = "generate/token"  # of the tape's draws


@dataclass(frozen=True)
class Request:
    """What to generate.

    prompt       (1, T) int64, T from 1
    tokens       how many more, from 1
    sample       False: the largest logit; True: drawn by the tape
    temperature  logits are divided by it before the softmax
    top_k        drawn among so many of the largest logits; 0: among all
    cache        feed each new token alone, with a cache of those before it
    end          the token behind which nothing comes; -1: there is none
    """

    prompt: np.ndarray
    tokens: int
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    cache: bool = True
    end: int = -1

    def save(self, folder: Path) -> None:
        """Write the request where a model's twins look for their data."""
        arrays = {key: np.asarray(value) for key, value in vars(self).items()}
        for key in ("sample", "cache"):
            arrays[key] = arrays[key].astype(np.int64)
        save_arrays(folder / f"{STEM}.npz", arrays)

    @classmethod
    def of(cls, data: Mapping[str, Mapping[str, np.ndarray]]) -> "Request":
        """The request among a run's data."""
        arrays = data[STEM]
        return cls(
            arrays["prompt"],
            int(arrays["tokens"]),
            bool(arrays["sample"]),
            float(arrays["temperature"]),
            int(arrays["top_k"]),
            bool(arrays["cache"]),
            int(arrays["end"]),
        )


def order_of(logits: np.ndarray, count: int) -> np.ndarray:
    """Indices (count,) int64 of the largest logits (V), largest first, equal ones in their order.

    More than there are: all.
    """
    return np.argsort(-logits, kind="stable")[:count].astype(np.int64)


def draw_scores(logits: np.ndarray, kept: np.ndarray, temperature: float, draw: float):
    """Scores (V) float64 whose largest is the token that a uniform draw from [0, 1) falls on.

    logits (V); kept (K) int64, the tokens that can be drawn at all.  The probabilities
    softmax(logits / temperature) of the kept tokens, in the order of their ids, lie end to end on
    [0, 1].  A token's score is how deep the draw lies inside its part, negative outside: so the
    margin of the choice is in units of probability, as the noise of the scores is.
    """
    kept = np.sort(kept)
    scaled = logits[kept].astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    ends = np.cumsum(weights)
    ends /= ends[-1]
    starts = np.concatenate([[0.0], ends[:-1]])
    scores = np.full(logits.shape, -2.0)  # deeper than anything
    scores[kept] = np.minimum(draw - starts, ends - draw)
    return scores
