"""The tape: every random number of a run, drawn by NumPy from (seed, site, step).

A draw does not depend on what was drawn before it, so both sides, both precisions and a reversible
layer's recomputation see the same numbers, in whatever order they ask.  Sites are names, such as
`reformer.encoder.layers.0.feed_forward.dropout`.
"""

import hashlib

import numpy as np


class Tape:
    """Counter-based draws: the same (seed, site, step) always gives the same array."""

    def __init__(self, seed: int):
        self.seed = int(seed)

    def generator(self, site: str, step: int = 0) -> np.random.Generator:
        """A generator of its own for one site and step (Philox, keyed by SHA-256 of the three)."""
        digest = hashlib.sha256(f"{self.seed}|{site}|{step}".encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))

    def keep_mask(self, site: str, step: int, shape: tuple[int, ...], p: float) -> np.ndarray:
        """Bool array of `shape`, True = keep; each element is dropped with probability `p`."""
        return self.generator(site, step).random(shape, dtype=np.float32) >= np.float32(p)

    def normal(self, site: str, step: int, shape: tuple[int, ...]) -> np.ndarray:
        """N(0, 1), float64."""
        return self.generator(site, step).standard_normal(shape)

    def permutation(self, site: str, step: int, count: int) -> np.ndarray:
        """A shuffled order of `range(count)`, int64."""
        return self.generator(site, step).permutation(count).astype(np.int64)
