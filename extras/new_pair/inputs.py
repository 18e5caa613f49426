"""What `--input NAME=KIND:SHAPE[:LIMIT]` says, and the lines of make_inputs that draw it.

    x=float32:2,3,64,64         normal numbers
    x=positive:2,3,64,64        numbers from 0 to 1, as of a model that takes their logarithm
    times=sorted:2,12           the same, rising along the last axis that has several
    input_ids=int64:2,12:50     integers from 0 to below 50
    lengths=int64:2:13          falling from 12, since its name says what it is
    flags=bool:2,12             True and False
    attention_mask=mask:2,12    1 = keep; rows of unequal length, the first of them full
    labels=labels:2:10          integers below 10, for the loss alone

NAME is what torch's forward calls it; NAME/OTHER, what Paddle's calls it too.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from math import prod

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import Kind

NORMAL = ("float32", "float64")
POSITIVE, SORTED = "positive", "sorted"
MASK, LABELS = "mask", "labels"
KINDS = (*NORMAL, POSITIVE, SORTED, "int64", "bool", MASK, LABELS)
_LIMITED = ("int64", LABELS)
_MOST_TRIED, _MOST_VALUES = 27, 30_000_000  # all of three inputs; all are drawn before the first


@dataclass(frozen=True)
class Input:
    """One array that make_inputs returns."""

    name: str  # torch's
    kind: str
    shape: tuple[int, ...]
    limit: int | None = None  # integers are below it
    paddle_name: str = ""  # where it was given

    @property
    def is_float(self) -> bool:
        """Return whether the input follows the run's precision."""
        return self.kind in (*NORMAL, POSITIVE, SORTED)

    def draw(self, mask: str | None = None) -> str:
        """The expression that draws it with `rng`; `mask` names the one of its shape, if any."""
        shape = repr(self.shape if len(self.shape) > 1 else self.shape[0])
        if self.kind in NORMAL:
            return f"rng.standard_normal({shape})"
        if self.kind == POSITIVE:
            return f"rng.random({shape})"
        if self.kind == SORTED:
            axis = max((i for i, size in enumerate(self.shape) if size > 1), default=0)
            return f"np.sort(rng.random({shape}), {axis})"
        if self.kind == "bool":
            return f"rng.random({shape}) < 0.5"
        if self.kind == MASK:
            rows, tokens = self.shape
            kept = _lengths(rows, tokens) if rows > 1 else [tokens - tokens // 3]
            return f"(np.arange({tokens}) < np.array({kept})[:, None]).astype(np.int64)"
        says_how_long = re.search(r"len(gth)?s?(_|$)", self.name.lower())
        if self.kind == "int64" and len(self.shape) == 1 and says_how_long:
            return f"np.array({_lengths(self.shape[0], self.limit - 1)})"
        drawn = f"rng.integers(0, {self.limit}, {shape})"
        if mask and self.kind == LABELS:
            return f"np.where({mask} == 1, {drawn}, -100)"
        return f"{drawn} * {mask}" if mask else drawn


def _lengths(rows: int, tokens: int) -> list[int]:
    """Return how many tokens each row keeps: the first all of them, the last of several one."""
    return [tokens - i * (tokens - 1) // max(rows - 1, 1) for i in range(rows)]


def proposals(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    """Yield the inputs to try: as they are asked for; then numbers from 0 to 1, or rising ones,
    instead of normal numbers: in as few inputs as can be, each of its own kind; then in all."""
    normal = [one.name for one in inputs if one.kind in NORMAL]
    mixed = (
        dict(zip(names, kinds, strict=True))
        for count in range(len(normal) + 1)
        for names in combinations(normal, count)
        for kinds in product((POSITIVE, SORTED), repeat=count)
    )
    size = sum(prod(one.shape) for one in inputs)
    tried = [*islice(mixed, max(1, min(_MOST_TRIED, _MOST_VALUES // size)))]
    alike = [dict.fromkeys(normal, kind) for kind in (POSITIVE, SORTED)]
    for kinds in [*tried, *(one for one in alike if one not in tried)]:
        yield [replace(one, kind=kinds.get(one.name, one.kind)) for one in inputs]


def parse_inputs(words: Sequence[str]) -> list[Input]:
    """The inputs that the command line gave; raises UserError for a word that says none."""
    inputs = [_parse(word) for word in words]
    names = [one.name for one in inputs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(Kind.INPUT_TWICE(name=name))
    return inputs


def _parse(word: str) -> Input:
    names, is_given, told = word.partition("=")
    name, _, paddle_name = names.partition("/")
    kind, *rest = told.split(":")
    if not is_given or not name.isidentifier() or (paddle_name or name).isidentifier() is False:
        raise UserError(Kind.INPUT_UNREADABLE(word=word))
    if kind not in KINDS:
        raise UserError(Kind.INPUT_OF_NO_KIND(word=word, given=kind, known=list(KINDS)))
    limited = kind in _LIMITED
    if len(rest) != 1 + limited:
        wanted = Kind.INPUT_WITHOUT_LIMIT if limited else Kind.INPUT_WITHOUT_SHAPE
        raise UserError(wanted(word=word, name=name, type=kind))
    try:
        shape = tuple(int(part) for part in rest[0].split(","))
        limit = int(rest[1]) if limited else None
    except ValueError:
        raise UserError(Kind.INPUT_NOT_WHOLE(word=word)) from None
    if min(shape) < 1 or (limit is not None and limit < 1):
        raise UserError(Kind.INPUT_TOO_SMALL(word=word))
    if kind == MASK and len(shape) != 2:
        raise UserError(Kind.INPUT_MASK_AXES(word=word))
    return Input(name, kind, shape, limit, paddle_name)


def mask_of(one: Input, inputs: Sequence[Input]) -> Input | None:
    """The mask that says which of an input's integers count; None where there is none."""
    if one.kind not in _LIMITED:
        return None
    return next((m for m in inputs if m.kind == MASK and m.shape == one.shape), None)
