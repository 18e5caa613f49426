"""Which of the reference's dropouts is which of the candidate's, where modules have other names.

Each side lists the dropouts of a pass as draws (common/logs/draws.py): the kind is "dropout" and
its rate, the site is the label of its numbers on the tape, such as `encoder.0.dropout#2`.  Only
these lists are looked at, never a value: a mask can make a right port agree, and no wrong one.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from twincheck.common.logs.draws import Draw, Pass

Numbers = Iterable[int]  # of draws in a pass


def partners(reference: Pass, candidate: Pass) -> Mapping[int, int]:
    """The candidate's number of a draw -> the reference's; one without a partner is left out.

    Draws of one rate and shape are matched in the order of their calls, module by module: where a
    module has another number of them on the other side, together with those of the module around
    it.  So a layer may draw what a module inside it draws on the other side.  What is left then
    (somewhere there is one too many) is matched by name, and at last by its order alone.
    """
    found: dict[int, int] = {}
    sides = (reference, candidate)
    waiting = [_grouped(_site, draws, range(len(draws))) for draws in sides]
    while any(waiting):
        site = max({*waiting[0], *waiting[1]}, key=lambda name: (name.count("."), name))
        numbers = [side.pop(site, []) for side in waiting]
        ours, theirs = (_grouped(_rate_and_shape, *one) for one in zip(sides, numbers, strict=True))
        for key in dict.fromkeys([*ours, *theirs]):
            pair = ours.get(key, []), theirs.get(key, [])
            if len(pair[0]) == len(pair[1]):
                found |= zip(*reversed(pair), strict=True)
            elif site:
                around = site.rpartition(".")[0]
                for side, some in zip(waiting, pair, strict=True):
                    side[around] = sorted([*side.get(around, []), *some])
    for alike in _ALIKE:
        found |= _in_line(alike, reference, candidate, found)
    return found


def axes_of(shape: Sequence[int], other: Sequence[int]) -> list[int] | None:
    """Return which axis of `shape` each axis of `other` is, where they are in another order.

    Lengths of 1 do not count; among equal lengths the order stays.  None where nothing is turned.
    """
    ours, theirs = _lengths(shape), _lengths(other)
    if ours == theirs or sorted(ours) != sorted(theirs):
        return None
    left = list(range(len(ours)))
    axes = []
    for length in theirs:
        axes.append(next(axis for axis in left if ours[axis] == length))
        left.remove(axes[-1])
    return axes


def _in_line(
    alike: Callable[[Draw], Hashable], reference: Pass, candidate: Pass, found: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield further partners among the draws without: those alike, in the order of both lists."""
    taken = set(found.values())
    ours = [i for i in range(len(reference)) if i not in taken]
    theirs = [i for i in range(len(candidate)) if i not in found]
    keys = [alike(candidate[i]) for i in theirs], [alike(reference[i]) for i in ours]
    for block in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            yield theirs[block.a + k], ours[block.b + k]


def _grouped(key: Callable[[Draw], Hashable], draws: Pass, numbers: Numbers) -> dict:
    groups: dict[Hashable, list[int]] = {}
    for number in numbers:
        groups.setdefault(key(draws[number]), []).append(number)
    return groups


def _site(draw: Draw) -> str:
    """The module that draws, and the dropout's name in it, without the number of its call."""
    return draw.site.partition("#")[0].partition("@")[0]


def _lengths(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length != 1]


def _rate_and_shape(draw: Draw) -> Hashable:
    return draw.kind, *sorted(_lengths(draw.shape))


# By what draws are alike that are left: name and size, rate and shape or size, size, name.
_ALIKE: tuple[Callable[[Draw], Hashable], ...] = (
    lambda draw: (draw.site, math.prod(draw.shape)),
    _rate_and_shape,
    lambda draw: (draw.kind, math.prod(draw.shape)),
    lambda draw: math.prod(draw.shape),
    lambda draw: draw.site,
)
