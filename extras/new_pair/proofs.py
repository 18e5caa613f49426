"""Sentences on a proposal: what values prove of each kind of layer, what differs, what stays open.

NumPy only.
"""

import re
from collections.abc import Iterator, Sequence

from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.align import Fused, Stack
from twincheck.extras.new_pair.assignment import Models, alike, grouped, is_turned_by_class
from twincheck.extras.new_pair.search import Found
from twincheck.extras.new_pair.trials import CLOSE, Event


def proofs(found: Found, models: Models) -> Iterator[str]:
    """One sentence for all layers of a kind; then what differs, whatever the weights."""
    matches, tried = found.assignment.matches, found.tried
    by_partner = grouped(matches, lambda name: (alike(name), alike(matches[name].torch)))
    for names in by_partner.values():
        name, other = _varying(names), _varying([matches[n].torch for n in names])
        said = name if name == other else Kind.LAYER_IS(paddle=name, torch=other)
        yield Kind.LAYER(layer=_several(said, len(names)), reasons=_why(names, found, models))
    kinds = grouped(
        found.assignment.fused, lambda f: (*map(alike, (*f.paddle, *f.torch)), f.groups)
    )
    yield from map(_as_one, kinds.values())
    yield from map(_as_stack, found.assignment.stacks)
    for same in grouped(sorted(found.more), alike).values():
        yield Kind.COMPUTES_MORE(layer=_all_of(same))
    arrived = [e for e in tried.failing if e.what == "in" or not e.unit]
    for event, *_ in grouped(arrived, lambda event: alike(event.unit)).values():
        yield Kind.DIFFERS_BEFORE(value=_value(event), gap=event.gap)


def open_questions(found: Found, models: Models, told: str) -> Iterator[str]:
    """Yield what is not decided, with what to write; `told` has what is tied or left over."""
    matches = found.assignment.matches
    if not found.tried.events:
        guessed = [n for n, match in matches.items() if _last(n) != _last(match.torch)]
        kinds = [names[0] for names in grouped(guessed, alike).values()]
        if kinds:
            pairs = [Kind.NAME_FOR(paddle=name, torch=matches[name].torch) for name in kinds]
            yield Kind.GUESSED(pairs=pairs)
    off = {e.unit for e in found.tried.failing if e.what == "out" and e.unit in matches}
    for name, *more in grouped(sorted(off - found.more), alike).values():
        if not any(models.paddle.units[name].key(local) in told for local in matches[name].locals):
            said = {"layer": _all_of([name, *more]), "torch": matches[name].torch}
            yield Kind.LAYER_DIFFERS(**said, gap=found.tried.gap(name, "out"))


def _why(names: list[str], found: Found, models: Models) -> list[str]:
    """Return what values say of units of one kind, and how their weights lie."""
    tried, name = found.tried, names[0]
    match = found.assignment.matches[name]
    unit, partner = models.paddle.units[name], models.torch.units[match.torch]
    reasons = []
    for what, kind in (("in", Kind.GIVEN_TORCHS), ("out", Kind.GIVES_TORCHS)):
        gaps = [gap for n in names if (gap := tried.gap(n, what)) is not None]
        if gaps and max(gaps) <= CLOSE:
            reasons.append(kind(within=_within(max(gaps))))
    if not reasons:
        reasons.append(Kind.FOUND_BY_NAME() if name == match.torch else Kind.FOUND_BY_ORDER())
    if match.regrouped:
        parts, before, after = match.regrouped
        reasons.append(Kind.ROWS_IN_TURNS(parts=parts, torch=before, paddle=after))
    for local, its in sorted(match.locals.items()):
        owner, shape = unit.entries[local], partner.entries[its].shape
        if len(owner.shape) > 1 and (local in match.turned) != is_turned_by_class(owner):
            turned = local in match.turned
            kind = Kind.WEIGHT_TRANSPOSED if turned else Kind.WEIGHT_NOT_TRANSPOSED
            reasons.append(kind(weight=local))
        if len(shape) != len(owner.shape):
            shapes = {"torch": str(list(shape)), "paddle": str(list(owner.shape))}
            reasons.append(Kind.WEIGHT_SHAPES(weight=local, **shapes))
    return reasons


def _as_one(same: list[Fused]) -> str:
    one = same[0]
    torch = _several(_joined(one.torch), len(same))
    kind = Kind.FUSED if one.joined else Kind.SPLIT
    return kind(paddle=_joined(one.paddle), torch=torch, order=_order(one.groups))


def _as_stack(stack: Stack) -> str:
    parts = _joined([_varying(list(keys)) for keys in stack.many])
    order = _order(stack.groups) if len(stack.many) > 1 or stack.groups > 1 else ""
    lies = Kind.EXPERTS_IN_OUT() if stack.turned else Kind.EXPERTS_OUT_IN()
    said = {"weight": stack.one, "parts": parts, "experts": len(stack.many[0])}
    return Kind.STACK(**said, order=[order, lies])


def _order(groups: int) -> str:
    return Kind.END_TO_END() if groups == 1 else Kind.IN_TURNS(turns=groups)


def _within(gap: float) -> str:
    return Kind.WITHIN(gap=gap) if gap else Kind.EXACTLY()


def _value(event: Event) -> str:
    return Kind.VALUE_ARRIVING(unit=event.unit) if event.unit else Kind.VALUE_OF_MODEL()


def _several(what: str, count: int) -> str:
    return Kind.SEVERAL_ALIKE(what=what, count=count) if count > 1 else what


def _all_of(names: list[str]) -> str:
    return _several(_varying(names), len(names))


def _varying(names: list[str]) -> str:
    """The first name, with # for the numbers that are not the same in all."""
    numbers = list(zip(*(re.findall(r"\d+", name) for name in names), strict=True))
    same = iter(len(set(column)) == 1 for column in numbers)
    return re.sub(r"\d+", lambda found: found[0] if next(same) else "#", names[0])


def _joined(names: Sequence[str]) -> str:
    *first, last = names
    return Kind.NAMES_AND(names=first, last=last) if first else last


def _last(name: str) -> str:
    return name.rpartition(".")[2]
