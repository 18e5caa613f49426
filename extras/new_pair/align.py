"""Which unit of one model may be which of the other, before any value is looked at.

Of units of equal sizes those are paired whose names, kinds and places in the order of calls are the
nearest, of all together.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment

from twincheck.common.weights.layers import COMPAT, Owner
from twincheck.extras.new_pair.structure import Structure, Unit

# Words that models use for the same thing.
_WORDS = {
    **dict.fromkeys(("layers", "blocks", "block", "h"), "layer"),
    **dict.fromkeys(("norm", "layernorm", "bn", "batchnorm"), "ln"),
    **dict.fromkeys(("fc", "dense"), "linear"),
    **{"query": "q", "key": "k", "value": "v", "attn": "attention"},
    **{"conv2d": "conv", "out": "output", "re": "real", "im": "imag"},
}
_SAME_NAME = 2.0  # beside the 1 of a match: no order outweighs an equal name
_SIMILAR = 0.5
_APART = 0.5  # from one end of the models' calls to the other


@dataclass(frozen=True)
class Fused:
    """Linear layers of one side that are one layer of the other: one of `paddle`, or of `torch`.

    sizes    the rows of each of the several
    groups   1: end to end; else in so many turns (recipes.Joined)
    """

    paddle: tuple[str, ...]
    torch: tuple[str, ...]
    sizes: tuple[int, ...]
    groups: int = 1

    @property
    def joined(self) -> bool:
        """True where Paddle has the one."""
        return len(self.paddle) == 1


@dataclass(frozen=True)
class Stack:
    """A weight of one side whose first axis is that of experts, which the other side has apart.

    one      its key, in Paddle where `joined`, else in torch
    many     of each part, such as gate and up, the keys of all experts
    sizes    the rows of each part
    turned   the one lies (experts, in, out)
    """

    one: str
    many: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    joined: bool
    turned: bool = False
    groups: int = 1


def words(name: str) -> list[str]:
    """The words of a module's path, in one spelling."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    lowered = (part.lower() for part in parts)
    return [_WORDS.get(word, word) for word in lowered if word not in ("proj", "self")]


def kind_of(name: str) -> str:
    """A class as both frameworks may write it: Conv2d and Conv2D, BatchNorm2d and BatchNorm."""
    plain = name.lower().removeprefix(COMPAT).replace("nondynamicallyquantizable", "")
    return re.sub(r"[123]d$", "", plain.replace("transpose", ""))


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how alike two names are, from 0 to 1; their last words count most."""
    if not one or not other:
        return 0.0
    weights = {}
    for names in (one, other):
        for i, word in enumerate(reversed(names)):
            weights[word] = max(weights.get(word, 0.0), 0.8**i)
    shared = set(one) & set(other)
    return sum(weights[word] for word in shared) / sum(weights.values())


def align(torch: Structure, paddle: Structure) -> tuple[dict[str, str], list[Fused], list[Stack]]:
    """Paddle unit -> torch unit, each at most once; what is fused or split; experts in one.

    Linear layers that are given the same tensor are aligned as one, and then among themselves.
    """
    pairs: dict[str, str] = {}
    fused: list[Fused] = []
    paddle_groups, torch_groups = (_groups(structure) for structure in (paddle, torch))
    for i, j in _matched(paddle_groups, torch_groups, _group_fits):
        within, cuts = _within(paddle_groups[i], torch_groups[j])
        pairs |= within
        fused += cuts
    done = set(pairs) | {name for each in fused for name in each.paddle}
    taken = set(pairs.values()) | {name for each in fused for name in each.torch}
    left = [[unit] for unit in paddle.in_order() if unit.name not in done]
    other = [[unit] for unit in torch.in_order() if unit.name not in taken]
    for i, j in _matched(left, other, lambda ps, ts: fits(ps[0], ts[0])):
        pairs[left[i][0].name] = other[j][0].name
    left = [group[0] for group in left if group[0].name not in pairs]
    other = [group[0] for group in other if group[0].name not in set(pairs.values())]
    return pairs, fused, [*_stacks(left, other, True), *_stacks(other, left, False)]


def _stacks(ones: Sequence[Unit], others: Sequence[Unit], joined: bool) -> list[Stack]:
    """Weights of units whose first axis is that of experts that the other side has apart."""
    families: dict[str, dict[str, list[Unit]]] = {}  # where the experts are -> their layers
    for unit in others:
        found = re.fullmatch(r"(.*\.)(\d+)((?:\..*)?)", unit.name)
        if found and unit.is_linear:
            where = families.setdefault(found[1], {})
            where.setdefault(found[3], []).append(unit)
    places = list(families.values())
    stacks: list[Stack] = []
    stacked = [unit for unit in ones if any(len(o.shape) == 3 for o in unit.entries.values())]
    for unit, layers in zip(stacked, places, strict=False):
        largest = sorted(unit.entries.items(), key=lambda item: -np.prod(item[1].shape))
        free = {ndim: list(layers.values()) for ndim in (2, 3)}
        for local, owner in largest:
            found = _parts_of(local, owner, free.get(len(owner.shape), []))
            if not found:
                continue
            free[len(owner.shape)] = [x for x in free[len(owner.shape)] if x not in found]
            own = found[0][0].entries
            name = next(n for n in own if len(own[n].shape) + 1 == len(owner.shape))
            many = tuple(tuple(u.key(name) for u in layer) for layer in found)
            rows = tuple(widths(layer[0])[1] for layer in found)
            lies = len(owner.shape) == 3 and owner.shape[-1] == sum(rows)
            stacks.append(Stack(unit.key(local), many, rows, joined, lies))
    return stacks


def _parts_of(local: str, owner: Owner, layers: list[list[Unit]]) -> Sequence[list[Unit]]:
    """The layers of all experts that a stacked weight holds, one or several; none if none fit."""
    for count in range(1, len(layers) + 1):
        fit = [parts for parts in combinations(layers, count) if _stack_fits(owner.shape, parts)]
        if fit:
            mine = words(local)
            return max(fit, key=lambda ps: sum(similarity(mine, words(p[0].name)) for p in ps))
    return ()


def _stack_fits(shape: tuple[int, ...], layers: Sequence[Sequence[Unit]]) -> bool:
    """Return whether layers of all experts, side by side, have a stacked weight's shape."""
    if len(shape) not in (2, 3) or any(len(layer) != shape[0] for layer in layers):
        return False
    given = {widths(layer[0])[0] for layer in layers}
    gave = sum(widths(layer[0])[1] for layer in layers)
    if len(shape) == 2:
        return shape[1] == gave and all(len(layer[0].entries) == 2 for layer in layers)
    return len(given) == 1 and sorted(shape[1:]) == sorted((*given, gave))


def _groups(structure: Structure) -> list[list[Unit]]:
    """The units in order, Linear layers that are given the same tensor together."""
    found: dict[object, list[Unit]] = {}
    for unit in structure.in_order():
        given = structure.given(unit) if unit.is_linear else None
        found.setdefault(unit.name if given is None else (given, widths(unit)[0]), []).append(unit)
    return list(found.values())


def widths(unit: Unit) -> tuple[int, int]:
    """Return how many numbers a Linear layer takes and gives: by its call, else as in torch."""
    if unit.calls and unit.calls[0].given and unit.calls[0].gave and not unit.is_conv:
        return unit.calls[0].given[0][-1], unit.calls[0].gave[0][-1]
    shape = next(owner.shape for owner in unit.entries.values() if len(owner.shape) > 1)
    return shape[1], shape[0]


def _group_fits(paddle: Sequence[Unit], torch: Sequence[Unit]) -> bool:
    if len(paddle) == len(torch) == 1:
        return fits(paddle[0], torch[0])
    if not all(unit.is_linear for unit in (*paddle, *torch)):
        return False
    sizes = [
        (widths(group[0])[0], sum(widths(unit)[1] for unit in group), len(group[0].entries))
        for group in (paddle, torch)
    ]
    return sizes[0] == sizes[1]


def _within(ps: Sequence[Unit], ts: Sequence[Unit]) -> tuple[dict[str, str], list[Fused]]:
    """Pair the units of two groups: those of equal sizes, else what is fused or split."""
    if len(ps) == len(ts) == 1:
        return {ps[0].name: ts[0].name}, []
    outs = [[widths(unit)[1] for unit in group] for group in (ps, ts)]
    if sorted(outs[0]) == sorted(outs[1]):
        singles = [[[unit] for unit in group] for group in (ps, ts)]
        found = _matched(*singles, lambda p, t: widths(p[0]) == widths(t[0]))
        return {ps[i].name: ts[j].name for i, j in found}, []
    pairs, fused, i, j = {}, [], 0, 0
    while i < len(ps) and j < len(ts):
        end, stop = i + 1, j + 1
        while sum(outs[0][i:end]) != sum(outs[1][j:stop]):
            if sum(outs[0][i:end]) < sum(outs[1][j:stop]):
                end += 1
            else:
                stop += 1
        if end - i == stop - j == 1:
            pairs[ps[i].name] = ts[j].name
        elif 1 in (end - i, stop - j):
            finer = outs[0][i:end] if end - i > 1 else outs[1][j:stop]
            names = [tuple(unit.name for unit in group) for group in (ps[i:end], ts[j:stop])]
            fused.append(Fused(*names, tuple(finer)))
        i, j = end, stop
    return pairs, fused


def _matched(paddle, torch, group_fits) -> list[tuple[int, int]]:
    """(Paddle's number, torch's) of groups that fit each other, by names and order."""
    names = [[words(group[0].name) for group in groups] for groups in (paddle, torch)]
    scores = np.full((len(paddle), len(torch)), -1.0)
    for i, ps in enumerate(paddle):
        for j, ts in enumerate(torch):
            if group_fits(ps, ts):
                likeness = _SIMILAR * similarity(names[0][i], names[1][j])
                likeness += 0.25 * (kind_of(ps[0].kind) == kind_of(ts[0].kind))
                same = ps[0].name == ts[0].name
                scores[i, j] = 1.0 + likeness + _SAME_NAME * same
    places = [np.arange(n) / max(1, n) for n in scores.shape]
    apart = _APART * np.abs(np.subtract.outer(*places))
    found = linear_sum_assignment(np.where(scores > 0, scores - apart, -scores.size - 1.0), True)
    return [(i, j) for i, j in zip(*map(np.ndarray.tolist, found), strict=True) if scores[i, j] > 0]


def fits(unit: Unit, other: Unit) -> bool:
    """Return whether one unit may hold the other's weights, whichever way they lie."""
    if unit.shape != other.shape:
        return False
    kinds = {kind_of(next(iter(u.entries.values())).kind) for u in (unit, other)}
    return "" in kinds or len(kinds) == 1 or kinds == {"conv", "linear"}  # with a kernel of 1
