"""An assignment corrected by what its trials show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

import numpy as np

from twincheck.extras.new_pair.align import Fused, Stack, fits
from twincheck.extras.new_pair.assignment import (
    Assignment,
    Match,
    Models,
    grouped,
    row_axis,
    template,
)
from twincheck.extras.new_pair.structure import sizes_of
from twincheck.extras.new_pair.trials import CLOSE, Trials, Tried, distance

_MOST_IN_A_TIE = 4  # of more, two are exchanged at a time


@dataclass
class Found:
    """The assignment that agrees best, and its trial.

    more    Paddle units that compute more than their partners: behind them all agrees
    """

    assignment: Assignment
    tried: Tried
    more: frozenset[str] = frozenset()


class Search:
    """The search for one pair of models."""

    def __init__(self, trials: Trials, models: Models):
        self.trials, self.models = trials, models

    def settle(self, assignment: Assignment) -> Found:
        """Correct an assignment until nothing more agrees."""
        tried = self.trials.run(assignment)
        while not self.trials.spent:
            better = self._better(assignment, tried)
            if better is None:
                break
            assignment, tried = better
        return Found(assignment, tried)

    def _better(self, assignment: Assignment, tried: Tried) -> tuple[Assignment, Tried] | None:
        """The first change after which more agrees; None where there is none."""
        if not tried.error and not tried.failing:
            return None
        for other in self._changes(assignment, tried):
            if self.trials.spent:
                break
            then = self.trials.run(other)
            if then.score > tried.score:
                return other, then
        return None

    def _changes(self, assignment: Assignment, tried: Tried) -> Iterator[Assignment]:
        """Yield other assignments to try, the likeliest first."""
        if tried.error:
            return
        moved = self._by_arrival(assignment, tried)
        if moved != assignment:
            yield moved
        for ties in self.ties(assignment).values():
            for order in _reordered(len(ties[0])):
                yield self._permuted(assignment, ties, order)
        turnable = {n: self.models.turnable(n, m) for n, m in assignment.matches.items()}
        for names in grouped(n for n, locals_ in turnable.items() if locals_).values():
            for local in sorted(turnable[names[0]]):
                yield self._turned(assignment, names, local)
        equal = {name: self._equal(name, match) for name, match in assignment.matches.items()}
        for names in grouped(equal, lambda name: (template(name), equal[name])).values():
            yield from self._other_locals(assignment, names, equal[names[0]])
        kinds = grouped(assignment.fused, lambda f: (*map(template, f.paddle), f.sizes))
        for same in kinds.values():
            yield from self._other_fusions(assignment, same)
        yield from self._other_stacks(assignment)
        yield from self._regroupings(assignment)

    def _by_arrival(self, assignment: Assignment, tried: Tried) -> Assignment:
        """Units that got what another torch unit was given become that one."""
        torch, paddle, moves = self.models.torch, self.models.paddle, {}
        given = {
            unit.name: torch.values.get(f"{unit.calls[0].number}/in/0")
            for unit in torch.units.values()
            if unit.calls and unit.calls[0].given
        }
        agreeing = {e.unit for e in tried.events if e.what == "in" and e.agrees}
        owner = {match.torch: name for name, match in assignment.matches.items()}
        for name, unit in paddle.units.items():
            calls = tried.calls.calls_of(name)
            if name in agreeing or not calls or not calls[0].given:
                continue
            arrived = tried.calls.values[f"{calls[0].number}/in/0"]
            for other, values in given.items():
                if owner.get(other) in agreeing or other in moves.values() or values is None:
                    continue
                if fits(unit, torch.units[other]) and distance(arrived, values, False) <= CLOSE:
                    moves[name] = other
                    break
        matches = dict(assignment.matches)
        freed = {name: matches.pop(name).torch for name in moves if name in matches}
        for name, other in moves.items():
            holder = owner.get(other)
            if holder in matches and holder not in moves:
                del matches[holder]
                back = freed.get(name)
                if back and back not in moves.values():
                    matches[holder] = self.models.match(holder, back)
            matches[name] = self.models.match(name, other)
        return replace(assignment, matches=matches)

    # ---- choices --------------------------------------------------------------------------------

    def _other_stacks(self, assignment: Assignment) -> Iterator[Assignment]:
        """Experts' parts in another order, in other numbers of turns, or the other way."""
        kinds = grouped(  # a bias goes with its weight
            assignment.stacks, lambda stack: (template(stack.one.rpartition(".")[0]), stack.sizes)
        )
        for (_, rows), same in kinds.items():
            square = {stack for stack in same if self._is_square(stack)}
            for groups, order in _turns(rows):
                for flipped in (set(), square) if square else (set(),):
                    others = {
                        stack: replace(
                            stack,
                            many=tuple(stack.many[i] for i in order),
                            sizes=tuple(stack.sizes[i] for i in order),
                            turned=stack.turned ^ (stack in flipped),
                            groups=groups,
                        )
                        for stack in same
                    }
                    if list(others.values()) != same:
                        stacks = tuple(others.get(each, each) for each in assignment.stacks)
                        yield replace(assignment, stacks=stacks)

    def _is_square(self, stack: Stack) -> bool:
        """Return whether a stack has square matrices, so that it may lie the other way."""
        side = self.models.paddle if stack.joined else self.models.torch
        shape = side.owners[stack.one].shape
        return len(shape) == 3 and shape[-1] == shape[-2]

    def _regroupings(self, assignment: Assignment) -> Iterator[Assignment]:
        """Rows in another order: thirds or halves for turns, also within heads (rotary); of one
        kind of layer, or of all that are given the same tensor and two of these."""
        torch = self.models.torch
        together: dict[object, list[str]] = {}
        for name, match in assignment.matches.items():
            unit = torch.units[match.torch]
            stacked = any(len(owner.shape) == 3 for owner in unit.entries.values())
            if unit.calls and not unit.is_conv and (unit.is_linear or stacked):
                together.setdefault(torch.given(unit) or name, []).append(name)
        both = [
            each for names in together.values() for n in (1, 2) for each in combinations(names, n)
        ]
        # Layers of one kind need not have as many rows, and then no order in common.
        rows = {name: self._rows(assignment.matches[name]) for names in both for name in names}
        kinds = grouped(both, lambda names: tuple((template(name), rows[name]) for name in names))
        for sets in sorted(kinds.values(), key=lambda sets: -len(sets[0])):
            matches = {name: assignment.matches[name] for names in sets for name in names}
            for how in self._orders(assignment, sets[0]):
                moves = {n: self._regrouped(m, *how) for n, m in matches.items()}
                yield assignment.exchanged(moves)

    def _orders(self, assignment: Assignment, names) -> list[tuple[int, int, bool]]:
        """(parts, rows that belong together, the other way round) for layers of these sizes."""
        rows = [self._rows(assignment.matches[name]) for name in names]
        most = int(np.gcd.reduce(rows))
        return [
            (parts, size, back)
            for parts in (2, 3)
            for size in range(most, 2 * parts - 1, -1)
            if most % size == 0 and size % parts == 0 and (parts == 2 or size == most)
            for back in (False, True)
        ]

    def _rows(self, match: Match) -> int:
        unit = self.models.torch.units[match.torch]
        local = unit.by_size[0]
        return unit.entries[local].shape[row_axis(unit, local)]

    def _regrouped(self, match: Match, parts: int, size: int, back: bool) -> Match:
        rows = self._rows(match)
        turns = (rows // size, rows // parts)
        return replace(match, regrouped=(parts, *(turns[::-1] if back else turns)))

    def ties(self, assignment: Assignment) -> dict[tuple, list[tuple[str, ...]]]:
        """Templates -> Paddle units, of each layer, whose partners are equal but for their values.

        They have the same sizes and are given the same tensor, or are never called.
        """
        torch, matches = self.models.torch, assignment.matches
        partners = {name: torch.units[match.torch] for name, match in matches.items()}
        equal = grouped(partners, lambda name: (torch.given(partners[name]), partners[name].shape))
        ties = [tuple(n) for (given, _), n in equal.items() if given is not None and len(n) > 1]
        return grouped(ties, lambda names: tuple(map(template, names)))

    def _permuted(self, assignment: Assignment, ties, order) -> Assignment:
        moves = {
            name: self.models.match(name, assignment.matches[tie[i]].torch)
            for tie in ties
            for name, i in zip(tie, order, strict=True)
        }
        return assignment.exchanged(moves)

    def _turned(self, assignment: Assignment, names: list[str], local: str) -> Assignment:
        matches = ((name, assignment.matches[name]) for name in names)
        return assignment.exchanged(
            {n: replace(m, turned=m.turned ^ {local}) for n, m in matches if local in m.locals}
        )

    def _equal(self, name: str, match: Match) -> tuple[tuple[str, ...], ...]:
        """The weights of a unit, those of equal sizes together; a framework's own are known."""
        mine, its = self.models.paddle.units[name], self.models.torch.units[match.torch]
        own = [
            local
            for local, other in match.locals.items()
            if not (mine.entries[local].kind and its.entries[other].kind)
        ]
        return tuple(map(tuple, grouped(own, lambda n: sizes_of(mine.entries[n].shape)).values()))

    def _other_locals(self, assignment: Assignment, names, equal) -> Iterator[Assignment]:
        """Weights of one unit that have equal sizes, in another order."""
        for each in equal:
            for order in _reordered(len(each)):
                moves = {}
                for name in names:
                    match = assignment.matches[name]
                    moved = {each[i]: match.locals[each[j]] for i, j in enumerate(order)}
                    moves[name] = replace(match, locals={**match.locals, **moved})
                yield assignment.exchanged(moves)

    def _other_fusions(self, assignment: Assignment, same: list[Fused]) -> Iterator[Assignment]:
        """Yield other orders of the parts, and other numbers of turns."""
        for groups, order in _turns(same[0].sizes):
            others = {}
            for each in same:
                finer = each.torch if each.joined else each.paddle
                names = tuple(finer[i] for i in order)
                sizes = tuple(each.sizes[i] for i in order)
                sides = (each.paddle, names) if each.joined else (names, each.torch)
                others[each] = Fused(*sides, sizes, groups)
            if list(others.values()) != same:
                fused = tuple(others.get(each, each) for each in assignment.fused)
                yield replace(assignment, fused=fused)


def _turns(rows: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """(turns, order) that parts of so many rows may stand in."""
    most = int(np.gcd.reduce(rows)) if len(rows) > 1 else 1
    counts = [n for n in range(1, most + 1) if most % n == 0]
    return list(product(counts, permutations(range(len(rows)))))


def _reordered(count: int) -> list[Sequence[int]]:
    """Return other orders of so many; of too many those in which two are exchanged."""
    if count > _MOST_IN_A_TIE:
        return [_exchanged(range(count), *two) for two in combinations(range(count), 2)]
    return list(permutations(range(count)))[1:]


def _exchanged(numbers, one: int, other: int) -> list[int]:
    order = list(numbers)
    order[one], order[other] = order[other], order[one]
    return order
