"""Generation, what both sides share: the request, and how a token is chosen from logits.

NumPy only: the check writes the request, the workers read it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.pair.data import save_arrays
from twincheck.common.system.frameworks import SIDES

STEM = "request"  # of the file in a model's data folder
SITE = "generate/token"  # of the tape's draws
LOOP, CACHE, LIBRARY = "loop", "cache", "library"
# How a side generates beside its plain loop, which all of these must agree with.
PADDED, PADDED_CACHE, PADDED_LIBRARY = "padded", "padded with cache", "padded library"


@dataclass(frozen=True)
class Request:
    """A request of what to generate.

    prompts      a tuple of (T,) int64, T from 1
    tokens       how many more, from 1
    sample       False: the largest logit; True: drawn by the tape
    temperature  logits are divided by it before the softmax
    top_k        drawn among so many of the largest logits; 0: among all
    cache        the sides that feed each new token alone, with a cache of those before it
    end          the token behind which a cached loop writes nothing; -1: there is none
    library      also by the library's own `generate`
    asked        a cache was asked for: a model that has none is an error
    padded       also all prompts as one batch, padded on the left
    pad          the token that they are padded with
    cached_loop  the loop itself goes by the cache, which makes the Reformer another function
    """

    prompts: tuple[np.ndarray, ...]
    tokens: int
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    cache: tuple[str, ...] = SIDES
    end: int = -1
    library: bool = False
    asked: bool = False
    padded: bool = False
    pad: int = 0
    cached_loop: bool = False

    def save(self, folder: Path) -> None:
        """Write the request where a model's workers look for their data."""
        told = vars(self) | {"prompts": [ids.tolist() for ids in self.prompts]}
        text = np.frombuffer(json.dumps(told).encode(), np.uint8)
        save_arrays(folder / f"{STEM}.npz", {"json": text})

    @classmethod
    def of(cls, data: Mapping[str, Mapping[str, np.ndarray]]) -> "Request":
        """The request among a run's data."""
        told = json.loads(data[STEM]["json"].tobytes())
        told = {k: tuple(value) if isinstance(value, list) else value for k, value in told.items()}
        return cls(**told | {"prompts": tuple(map(np.array, told["prompts"]))})


def choose(logits: np.ndarray, request: Request, draw: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores (V) whose largest is the token to go on with, and the tokens that can be chosen.

    draw   the tape's number for this token, where tokens are drawn
    """
    kept = order_of(logits, request.top_k or logits.size)
    if not request.sample:
        return logits, kept
    return draw_scores(logits, kept, request.temperature, draw), kept


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
