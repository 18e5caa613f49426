"""Which weights of torch's go where in Paddle: what is tried, and in the end proposed.

NumPy only.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twincheck.common.weights.layers import (
    PROJECTIONS,
    TRANSPOSED,
    Owner,
    is_reshaped,
    torch_locals,
)
from twincheck.extras.new_pair.align import Fused, Stack, kind_of, similarity, words
from twincheck.extras.new_pair.recipes import joined, key, part_of, shaped, stacked, turned
from twincheck.extras.new_pair.structure import (
    HALVES,
    Structure,
    Unit,
    halved,
    sizes_of,
    spelt,
    whole_of,
)


@dataclass(frozen=True)
class Match:
    """A unit of Paddle's that is one of torch's.

    locals   Paddle's own name of each weight -> torch's
    turned   Paddle's own names of the weights that lie the other way
    regrouped   (parts, turns in torch, turns in Paddle), where the rows are in another order:
             halves for neighbours, also within each head
    """

    torch: str
    locals: Mapping[str, str]
    turned: frozenset[str] = frozenset()
    regrouped: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Assignment:
    """Every unit of Paddle's that has a partner, and what is fused or split."""

    matches: Mapping[str, Match]
    fused: tuple[Fused, ...] = ()
    stacks: tuple[Stack, ...] = ()

    def exchanged(self, moves: Mapping[str, Match]) -> "Assignment":
        """Return the assignment with other partners for some units."""
        return replace(self, matches={**self.matches, **moves})


@dataclass
class Models:
    """Both structures, and what an assignment makes of them."""

    torch: Structure
    paddle: Structure

    def match(self, name: str, other: str) -> Match:
        """Pair two units: their weights by the layers' own names, else by shapes and names."""
        unit, partner = self.paddle.units[name], self.torch.units[other]
        locals_: dict[str, str] = {}
        left = list(partner.entries)
        for local, owner in unit.entries.items():
            known = next((n for n in torch_locals(owner) if n in left), None)
            if known is not None and sizes_of(owner.shape) == sizes_of(
                partner.entries[known].shape
            ):
                locals_[local] = known
                left.remove(known)
        for local, owner in unit.entries.items():
            mine = words(spelt(local))
            fit = [n for n in left if sizes_of(partner.entries[n].shape) == sizes_of(owner.shape)]
            if fit and local not in locals_:
                fit.sort(key=lambda n: -similarity(mine, words(spelt(n))))
                locals_[local] = fit[0]
                left.remove(fit[0])
        other_way = (n for n, its in locals_.items() if self._is_turned(unit, n, partner, its))
        return Match(other, locals_, frozenset(other_way))

    def _is_turned(self, unit: Unit, mine: str, partner: Unit, its: str) -> bool:
        """Return whether a weight lies the other way, by its shape; a square one, by its class."""
        owner, other = unit.entries[mine], partner.entries[its]
        shape, source = matrices(owner.shape, other.shape)
        if len(shape) < 2:
            return False
        swapped = (*source[:-2], source[-1], source[-2])
        if shape == source == swapped:
            return is_turned_by_class(owner) and kind_of(other.kind) in ("linear", "conv")
        return shape != source and swapped == shape

    def turnable(self, name: str, match: Match) -> list[str]:
        """The weights of a unit whose shape does not say which way they lie."""
        found = []
        for mine, its in match.locals.items():
            owner = self.paddle.units[name].entries[mine]
            other = self.torch.units[match.torch].entries[its]
            shape, _ = matrices(owner.shape, other.shape)
            kernels = "conv" in kind_of(owner.kind) and len(owner.shape) == len(other.shape)
            if len(shape) in (2, 3) and shape[-1] == shape[-2] and not kernels:
                found.append(mine)
        return found

    def recipes(self, assignment: Assignment) -> dict[str, str]:
        """Paddle key -> how its values are made of torch's."""
        made: dict[str, str] = {}
        halves: dict[str, dict[str, str]] = {}
        for name, match in assignment.matches.items():
            unit = self.paddle.units[name]
            for mine, its in match.locals.items():
                recipe = self.source(match.torch, its)
                if match.regrouped:
                    recipe = self._regrouped(recipe, match, its)
                shapes = self.torch.units[match.torch].entries[its].shape, unit.entries[mine].shape
                recipe = arranged(recipe, *shapes, mine in match.turned)
                whole, half = whole_of(unit.key(mine))
                if half:
                    halves.setdefault(whole, {})[half] = recipe
                else:
                    made[whole] = recipe
        for whole, codes in halves.items():
            if len(codes) == len(HALVES):
                made[whole] = f"np.stack([{', '.join(codes[half] for half in HALVES)}], -1)"
        for each in assignment.fused:
            made |= self._fused(each)
        for stack in assignment.stacks:
            made |= self._stacked(stack)
        return made

    def _regrouped(self, recipe: str, match: Match, its: str) -> str:
        """A weight with its rows in another order."""
        partner = self.torch.units[match.torch]
        shape = partner.entries[its].shape
        axis = row_axis(partner, its)
        count, before, after = match.regrouped
        if shape[axis] != count * max(before, after):
            return recipe  # another weight of that layer
        sizes = [shape[axis] // count] * count
        return f"join(cut({recipe}, {sizes}, {before}, {axis}), {after}, {axis})"

    def _stacked(self, stack: Stack) -> dict[str, str]:
        """A stack of all experts, or each expert's part of one."""
        if stack.joined:
            parts = [stacked(keys) for keys in stack.many]
            recipe = parts[0] if len(parts) == 1 else joined(parts, stack.groups, 1)
            return {stack.one: turned(recipe, True) if stack.turned else recipe}
        made: dict[str, str] = {}
        for i, keys in enumerate(stack.many):
            for e, name in enumerate(keys):
                recipe = key(stack.one, f"[{e}]")
                recipe = turned(recipe) if stack.turned else recipe
                turn = is_turned_by_class(self.paddle.owners[name])
                if len(stack.many) > 1:
                    made[name] = part_of(recipe, stack.sizes, i, stack.groups, turn=turn)
                else:
                    made[name] = turned(recipe) if turn else recipe
        return made

    def source(self, name: str, local: str) -> str:
        """A torch unit's weight; of attention's projections the rows of the one they are in."""
        unit = self.torch.units[name]
        if not unit.virtual:
            return key(*whole_of(unit.key(local)))
        parent, _, part = name.rpartition(".")
        prefix = f"{parent}." if parent else ""
        alone = f"{prefix}{part}_{local}"
        if alone in self.torch.owners:
            return key(alone)
        size = unit.entries[local].shape[0]
        fused = key(f"{prefix}in_proj_{local}")
        return part_of(fused, (size,) * len(PROJECTIONS), PROJECTIONS.index(part))

    def _fused(self, each: Fused) -> dict[str, str]:
        made = {}
        for i, unit in enumerate(self.paddle.units[name] for name in each.paddle):
            for j, mine in enumerate(unit.by_size):
                parts, shape = [], unit.entries[mine].shape
                for partner in (self.torch.units[name] for name in each.torch):
                    for its in partner.by_size[j : j + 1]:
                        source = partner.entries[its].shape
                        flat = source if len(source) == len(shape) else source[:2]  # a kernel of 1
                        recipe = shaped(self.source(partner.name, its), source, flat)
                        parts.append(turned(recipe) if _lies_in_out(partner, its) else recipe)
                turn = _lies_in_out(unit, mine)
                if each.joined:
                    recipe = joined(parts, each.groups, turn=turn)
                else:
                    recipe = part_of(parts[0], each.sizes, i, each.groups, turn=turn)
                made[unit.key(mine)] = shaped(recipe, shape[: len(flat)], shape)
        return made

    def to_convert(self, assignment: Assignment) -> dict[str, str]:
        """The recipes that RENAME alone does not follow."""
        keys = {
            whole_of(self.paddle.units[name].key(local))[0]
            for name, match in assignment.matches.items()
            for local in match.locals
            if self._lies_otherwise(name, match, local)
        }
        keys |= {key for each in assignment.fused for key in self._fused(each)}
        keys |= {key for stack in assignment.stacks for key in self._stacked(stack)}
        return {key: r for key, r in self.recipes(assignment).items() if key in keys}

    def _lies_otherwise(self, name: str, match: Match, mine: str) -> bool:
        """Return whether a unit's weight is not what RENAME and its class make of torch's."""
        owner, its = self.paddle.units[name].entries[mine], match.locals[mine]
        shape = self.torch.units[match.torch].entries[its].shape
        by_class = is_turned_by_class(owner)
        fits = (shape[::-1] if by_class else shape) == owner.shape or is_reshaped(owner)
        otherwise = len(owner.shape) >= 2 and by_class != (mine in match.turned)
        return bool(match.regrouped) or otherwise or not fits or halved(mine, its)


def arranged(recipe: str, source: tuple[int, ...], shape: tuple[int, ...], is_turned: bool) -> str:
    """A weight of shape `source` as one of another shape, whose matrix may lie the other way."""
    if is_turned:
        _, matrix = matrices(shape, source)
        recipe = turned(shaped(recipe, source, matrix), len(matrix) > 2)
        source = (*matrix[:-2], matrix[-1], matrix[-2])
    return shaped(recipe, source, shape)


def matrices(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return two shapes, without axes of length 1 where their axes differ in number: alike for
    a convolution with a kernel of 1 and a Linear layer."""
    if len(one) == len(other):
        return one, other
    return tuple(tuple(n for n in shape if n != 1) for shape in (one, other))


def is_turned_by_class(owner: Owner) -> bool:
    """Return whether a Paddle weight is transposed by the kind of its layer."""
    return owner.local in TRANSPOSED.get(owner.kind, ()) and len(owner.shape) == 2


def _lies_in_out(unit: Unit, local: str) -> bool:
    """Return whether a Linear layer's weight is (in, out): by its call's shapes, else its class."""
    owner = unit.entries[local]
    if len(owner.shape) != 2:
        return False
    if unit.calls and unit.calls[0].given and owner.shape[0] != owner.shape[1]:
        return owner.shape == (unit.calls[0].given[0][-1], unit.calls[0].gave[0][-1])
    return is_turned_by_class(owner) and unit.side == "paddle"


def row_axis(unit: Unit, local: str) -> int:
    """The axis of a weight along which its layer's outputs lie: the last of a stack's."""
    shape = unit.entries[local].shape
    if len(shape) == 2 and unit.is_linear:
        return 1 if _lies_in_out(unit, local) else 0
    return len(shape) - 1


def template(name: str) -> str:
    """A name without the numbers of layers: what all layers of a kind share.

    fc1 and fc2 are two kinds; so a choice for one of them is not one for the other.
    """
    return re.sub(r"(?<![^.])\d+(?![^.])", "#", name)


def alike(name: str) -> str:
    """A name without any number, for what is said of many at once."""
    return re.sub(r"\d+", "#", name)


def grouped(things: Iterable, kind: Callable[[Any], Hashable] = template) -> dict[Any, list]:
    """Kind -> the things, by default names, that are of it, in their order."""
    found: dict[Any, list] = {}
    for thing in things:
        found.setdefault(kind(thing), []).append(thing)
    return found
