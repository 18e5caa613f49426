"""Which unit of one model may be which of the other, before any value is looked at.

NumPy only.  Units of equal sizes are aligned in the order of their calls, where equal and similar
names weigh too; what that leaves is paired by its names.
"""

import re
from collections.abc import Sequence

import numpy as np

from common.setup.structure import Structure, Unit

# Words that models use for the same thing.
_WORDS = {
    "layers": "layer",
    "blocks": "layer",
    "block": "layer",
    "h": "layer",
    "query": "q",
    "key": "k",
    "value": "v",
    "norm": "ln",
    "layernorm": "ln",
    "bn": "ln",
    "batchnorm": "ln",
    "fc": "linear",
    "dense": "linear",
    "attn": "attention",
    "conv2d": "conv",
    "out": "output",
}
_SAME_NAME = 2.0  # beside the 1 of a match: no order outweighs an equal name
_SIMILAR = 0.5


def words(name: str) -> list[str]:
    """The words of a module's path, in one spelling."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    lowered = (part.lower() for part in parts)
    return [_WORDS.get(word, word) for word in lowered if word not in ("proj", "self")]


def kind_of(name: str) -> str:
    """A class as both frameworks may write it: Conv2d and Conv2D, BatchNorm2d and BatchNorm."""
    return re.sub(r"[123]d$", "", name.lower()).removesuffix("transpose")


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """From 0 to 1, how alike two names are; their last words count most."""
    if not one or not other:
        return 0.0
    weights = {}
    for names in (one, other):
        for i, word in enumerate(reversed(names)):
            weights[word] = max(weights.get(word, 0.0), 0.8**i)
    shared = set(one) & set(other)
    return sum(weights[word] for word in shared) / sum(weights.values())


def align(torch: Structure, paddle: Structure) -> dict[str, str]:
    """Paddle unit -> torch unit, each at most once."""
    torch_units, paddle_units = torch.in_order(), paddle.in_order()
    torch_words = [words(unit.name) for unit in torch_units]
    paddle_words = [words(unit.name) for unit in paddle_units]
    scores = np.full((len(paddle_units), len(torch_units)), -1.0)
    for i, unit in enumerate(paddle_units):
        for j, other in enumerate(torch_units):
            if fits(unit, other):
                likeness = _SIMILAR * similarity(paddle_words[i], torch_words[j])
                likeness += 0.25 * (kind_of(unit.kind) == kind_of(other.kind))
                scores[i, j] = 1.0 + likeness + _SAME_NAME * (unit.name == other.name)
    pairs = _in_order(scores)
    rows, columns = {i for i, _ in pairs}, {j for _, j in pairs}
    left = [
        (scores[i, j], -i, -j)
        for i, j in np.argwhere(scores > 0)
        if i not in rows and j not in columns
    ]
    for _, i, j in sorted(left, reverse=True):
        if -i not in rows and -j not in columns:
            rows.add(-i)
            columns.add(-j)
            pairs.append((-i, -j))
    return {paddle_units[i].name: torch_units[j].name for i, j in pairs}


def fits(unit: Unit, other: Unit) -> bool:
    """Whether one may hold the other's weights, whichever way they lie."""
    if unit.shape != other.shape or bool(unit.calls) != bool(other.calls) and not other.virtual:
        return False
    kinds = {next(iter(u.entries.values())).kind for u in (unit, other)}
    return "" in kinds or len({kind_of(kind) for kind in kinds}) == 1


def _in_order(scores: np.ndarray) -> list[tuple[int, int]]:
    """Pairs (row, column), both rising, whose scores have the largest sum; no negative ones."""
    rows, columns = scores.shape
    best = np.zeros((rows + 1, columns + 1))
    for i in range(rows):
        taken = np.where(scores[i] > 0, best[i, :-1] + scores[i], -1.0)
        best[i + 1, 1:] = np.maximum.accumulate(np.maximum(taken, best[i, 1:]))
    pairs, i, j = [], rows, columns
    while i and j:
        if best[i, j] == best[i, j - 1]:
            j -= 1
        elif best[i, j] == best[i - 1, j]:
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]
