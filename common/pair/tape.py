"""The tape: every random number of a run, drawn by NumPy from (seed, site, step).

A draw does not depend on what was drawn before it, so both sides, both precisions and a reversible
layer's recomputation see the same numbers, in whatever order they ask.  Sites are names, such as
`reformer.encoder.layers.0.feed_forward.dropout`.
"""

import hashlib
import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# From so many values on, normal draws are made in blocks and float32: 100 million in a second.
LARGE = 1 << 18
_BLOCK = 1 << 20


def _uniform(generator: np.random.Generator, count: int) -> np.ndarray:
    """In (0, 1), both ends excluded: models take logarithms of these.

    Odd multiples of 2^-24 are exact in float32 and in float64.
    """
    halves = 2 * generator.integers(0, 1 << 23, count) + 1
    return (halves / (1 << 24)).astype(np.float32)


# What a model may draw -> that many of it.  Floats are rounded to float32 here, so that the runs in
# both precisions go on with the same numbers.
KINDS = {
    "uniform": _uniform,
    "normal": lambda generator, count: generator.standard_normal(count).astype(np.float32),
    "integers": lambda generator, count: generator.random(count),  # to be scaled to a range
    "permutation": lambda generator, count: generator.permutation(count).astype(np.int64),
}


class Tape:
    """Counter-based draws: the same (seed, site, step) always gives the same array."""

    def __init__(self, seed: int):
        self.seed = int(seed)

    def generator(self, site: str, step: int = 0) -> np.random.Generator:
        """A generator of its own for one site and step (Philox, keyed by SHA-256 of the three)."""
        digest = hashlib.sha256(f"{self.seed}|{site}|{step}".encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))

    def keep_mask(self, site: str, step: int, shape: tuple[int, ...], p: float) -> np.ndarray:
        """Bool array of `shape`, True = keep; each element is dropped with probability `p`.

        As `generator.random(shape, dtype=np.float32) >= np.float32(p)`, in two thirds of the time:
        such a float32 is the upper 24 of 32 random bits, so the bits are compared themselves.
        """
        whole, part = self.drawn(shape)
        count, least = math.prod(whole), math.ceil(max(float(np.float32(p)), 0.0) * 2**24)
        pairs = self.generator(site, step).bit_generator.random_raw((count + 1) // 2)
        bits = pairs.astype("<u8", copy=False).view("<u4")[:count].reshape(whole)[part]
        return bits >= np.uint32(least << 8) if least < 2**24 else np.zeros(shape, bool)

    def drawn(self, shape: tuple[int, ...], kind: str = "") -> tuple[tuple[int, ...], object]:
        """What shape is drawn where a model asks for one, and the index of what it gets of that."""
        return shape, ...

    def normal(self, site: str, step: int, shape: tuple[int, ...]) -> np.ndarray:
        """N(0, 1), float64; of many values each is one of float32's."""
        if math.prod(shape) >= LARGE:
            return self.normal_in_blocks(site, step, shape).astype(np.float64)
        return self.generator(site, step).standard_normal(shape)

    def normal_in_blocks(self, site: str, step: int, shape: tuple[int, ...]) -> np.ndarray:
        """N(0, 1), float32.

        Each block has a generator of its own, so that threads share the work in any order.
        """
        values = np.empty(math.prod(shape), np.float32)

        def fill(number: int) -> None:
            block = values[number * _BLOCK : (number + 1) * _BLOCK]
            self.generator(f"{site}/block {number}", step).standard_normal(None, np.float32, block)

        with ThreadPoolExecutor(_threads()) as pool:
            list(pool.map(fill, range(-(-values.size // _BLOCK))))
        return values.reshape(shape)

    def numbers(self, kind: str, shape: tuple[int, ...], site: str, step: int) -> np.ndarray:
        """A draw of one of KINDS in a model's own code, which has no name for it.

        Lengths of 1 do not count: (8, 1, 1) and (8,) are given the same numbers.
        """
        whole, part = self.drawn(shape, kind)
        lengths = ",".join(str(length) for length in whole if length != 1)
        generator = self.generator(f"own/{kind}/{lengths}/{site}", step)
        return KINDS[kind](generator, math.prod(whole)).reshape(whole)[part]

    def integers(self, site: str, step: int, shape: tuple[int, ...], end: int) -> np.ndarray:
        """Integers from 0 to below `end`, each as likely as any other, int64."""
        return self.generator(site, step).integers(0, end, shape)

    def permutation(self, site: str, step: int, count: int) -> np.ndarray:
        """A shuffled order of `range(count)`, int64."""
        return self.generator(site, step).permutation(count).astype(np.int64)


def _threads() -> int:
    """As many as a framework takes."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else os.cpu_count() or 1
