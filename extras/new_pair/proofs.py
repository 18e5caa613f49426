"""A sentence for each weight, or each kind of layer: why it is where it is; and what stays open.

NumPy only.
"""

import re
from collections.abc import Iterator

from twincheck.common.logs.sidecar import setting_text
from twincheck.extras.new_pair.align import Fused, Stack
from twincheck.extras.new_pair.assignment import Models, alike, grouped, is_turned_by_class
from twincheck.extras.new_pair.search import Found
from twincheck.extras.new_pair.structure import halved
from twincheck.extras.new_pair.trials import CLOSE, Event

# A layer's result that is off by less of its size has the right weights, but another setting.
_COMPUTES_OTHERWISE = 0.1
_ALONE = "nothing in this pass tells them apart"
_IN_TRAINING = ("momentum", "rate")  # settings that no pass in eval mode depends on


def proofs(found: Found, models: Models) -> Iterator[str]:
    """One sentence for all layers of a kind."""
    matches = found.assignment.matches
    by_partner = grouped(matches, lambda name: (alike(name), alike(matches[name].torch)))
    for names in by_partner.values():
        yield f"{_named(names, [matches[n].torch for n in names])}: {_why(names, found, models)}"
    for said, event in _joined_or_cut(found):
        if event is not None and event.agrees:
            yield f"{said}; so what {_place(event)} is torch's ({_within(event.gap)})"
    seen = set()
    for pair, event in found.told_apart.items():
        kind = tuple(map(alike, pair))
        if kind not in seen:
            seen.add(kind)
            yield (
                f"{pair[0]} and {pair[1]}: not the other way round, for then what "
                f"{_place(event)} is off by {event.gap:.0e} of its size"
            )
    yield from _differences(found, models)


def _differences(found: Found, models: Models) -> Iterator[str]:
    """Where the sides compute otherwise, whatever the weights."""
    arrived = [e for e in found.tried.failing if e.what == "in" or not e.unit]
    for events in _by_kind(arrived):
        yield (
            f"DIFFERS: what {_place(events[0])} is off by {events[0].gap:.0e} of its size, however "
            "weights were assigned: the sides compute otherwise before it"
        )
    for same in grouped(sorted(found.more), alike).values():
        yield (
            f"{same[0]}{_more(same)}: it gives another result than its partner in torch, and what "
            "arrives behind it is torch's: it computes more by itself, such as an activation"
        )
    near = [e for e in found.tried.failing if e.what == "out" and e.unit not in ("", *found.more)]
    for events in _by_kind([e for e in near if e.gap <= _COMPUTES_OTHERWISE]):
        yield (
            f"DIFFERS: {events[0].unit}{_more([e.unit for e in events])}: given what torch's is "
            f"given, it gives another result, off by {events[0].gap:.0e} of its size: it computes "
            f"otherwise{_by_settings(events[0].unit, found, models)}"
        )


def _by_settings(name: str, found: Found, models: Models) -> str:
    """What a unit and its partner were built with that differs; an epsilon that one alone keeps."""
    mine = models.paddle.settings.get(name, {})
    its = models.torch.settings.get(found.assignment.matches[name].torch, {})
    told = [
        f"its {what} is {setting_text(what, value)}, and {setting_text(what, its[what])} in torch"
        for what, value in mine.items()
        if what not in _IN_TRAINING and its.get(what, value) != value
    ]
    alone = ("epsilon" in mine) != ("epsilon" in its)
    return f": {', '.join(told)}" if told else ", such as with another epsilon" if alone else ""


def _by_kind(events: list[Event]) -> list[list[Event]]:
    return list(grouped(events, lambda event: alike(event.unit)).values())


def open_questions(found: Found, models: Models, told: str) -> Iterator[str]:
    """What is not decided, and what to write; `told` says already what is tied or left over."""
    matches = found.assignment.matches
    if not found.tried.events:
        guessed = [n for n, match in matches.items() if _last(n) != _last(match.torch)]
        kinds = [names[0] for names in grouped(guessed, alike).values()]
        if kinds:
            pairs = (f"{name} for {matches[name].torch}" for name in kinds)
            yield f"guessed by shapes, order and likeness of names alone: {', '.join(pairs)}"
    seen = set()
    for pair in found.alike:
        kind = tuple(map(alike, pair))
        names = [name for name in pair if name in matches]
        if kind in seen or len(names) < 2:
            continue
        seen.add(kind)
        others = [matches[name].torch for name in pair]
        if all(_last(mine) == _last(its) for mine, its in zip(pair, others, strict=True)):
            continue
        yield (
            f"{_joined(pair)}: {_ALONE}; they are taken for {_joined(others)}. If it is the other "
            f"way round, write RENAME = {{{pair[0]!r}: {others[1]!r}, {pair[1]!r}: {others[0]!r}}}"
        )
    for said, event in _joined_or_cut(found):
        if event is None or not event.agrees:
            shown = (
                f"what {_place(event)} is off by {event.gap:.0e}" if event else "nothing is seen"
            )
            yield (
                f"{said}: of all orders that were tried it comes nearest, but {shown}: look how "
                "both sides cut it, and mend case.py's convert if it is another"
            )
    gaps = {name: found.tried.gap(name, "out") or 0 for name in matches if name not in found.more}
    far = [name for name, gap in gaps.items() if gap > _COMPUTES_OTHERWISE]
    for same in grouped(far, alike).values():
        name, gap = same[0], found.tried.gap(same[0], "out")
        if any(models.paddle.units[name].key(local) in told for local in matches[name].locals):
            continue
        built = _by_settings(name, found, models)
        why = f"computes otherwise{built}"
        if not built.startswith(":"):  # an epsilon by itself makes no such gap
            why = "is another layer, or its weights are others"
        yield (
            f"{name}{_more(same)}: given what torch's {matches[name].torch} is given, it gives "
            f"another result, off by {gap:.0e} of its size, whichever way its weights lie: it {why}"
        )


def _joined_or_cut(found: Found) -> Iterator[tuple[str, Event | None]]:
    """What is fused, split or stacked, and the first event behind it."""
    kinds = grouped(
        found.assignment.fused, lambda f: (*map(alike, (*f.paddle, *f.torch)), f.groups)
    )
    for same in kinds.values():
        yield _as_one(same), _behind(same[0].paddle, found)
    for stack in found.assignment.stacks:
        yield _as_stack(stack), _behind(_modules_of(stack), found)


def _more(same: list[str]) -> str:
    return f" (and {len(same) - 1} more of its kind)" if len(same) > 1 else ""


def _why(names: list[str], found: Found, models: Models) -> str:
    """How units of one kind were found."""
    tried, name = found.tried, names[0]
    match = found.assignment.matches[name]
    unit, partner = models.paddle.units[name], models.torch.units[match.torch]
    given, gave = (_largest(tried.gap(n, what) for n in names) for what in ("in", "out"))
    reasons = []
    if given is not None and given <= CLOSE:
        reasons.append(f"what arrives at it is what torch's is given ({_within(given)})")
    elif given is not None:
        reasons.append(f"{_by_name(name, match.torch)}: the sides differ before it")
    if gave is not None and gave <= CLOSE:
        reasons.append(f"given that, it gives torch's result ({_within(gave)})")
    if not reasons:
        reasons.append(_by_name(name, match.torch))
        if partner.virtual:
            reasons.append(f"rows of {partner.virtual}.in_proj_weight")
        elif not unit.calls:
            reasons.append("no call reaches it in this pass")
    if match.regrouped:
        parts, before, after = match.regrouped
        reasons.append(f"its rows are {parts} parts in {before} turns in torch, {after} in Paddle")
    for local in sorted(match.locals):
        owner = unit.entries[local]
        if len(owner.shape) > 1 and (local in match.turned) != is_turned_by_class(owner):
            how = "transposed" if local in match.turned else "not transposed"
            reasons.append(f"its {local} is {how}")
        elif local in models.turnable(name, match) and gave is not None and gave <= CLOSE:
            how = "transposed" if local in match.turned else "as it is"
            reasons.append(f"its square {local} {how}")
        its = match.locals[local]
        shape = partner.entries[its].shape
        if halved(local, its):
            reasons.append(f"its {local} is {its}")
        elif len(shape) != len(owner.shape):
            reasons.append(f"its {local} is {list(shape)} in torch, {list(owner.shape)} in Paddle")
    return "; ".join(reasons)


def _as_one(same: list[Fused]) -> str:
    one = same[0]
    order = "end to end" if one.groups == 1 else f"in {one.groups} turns of each"
    names = [_joined(group) for group in (one.paddle, one.torch)]
    many = f" ({len(same)} of them)" if len(same) > 1 else ""
    return f"{names[0]} {'is' if one.joined else 'are'} {names[1]}{many}, {order}"


def _as_stack(stack: Stack) -> str:
    parts = _joined([_varying(list(keys)) for keys in stack.many])
    order = "" if len(stack.many) == 1 else ", end to end"
    order = order if stack.groups == 1 else f", in {stack.groups} turns of each"
    lies = "(experts, in, out)" if stack.turned else "(experts, out, in)"
    return f"{stack.one} is {parts} of {len(stack.many[0])} experts{order}, {lies}"


def _modules_of(stack: Stack) -> tuple[str, ...]:
    """The modules of Paddle's that hold a stack, or its parts."""
    keys = [stack.one] if stack.joined else [key for keys in stack.many for key in keys]
    return tuple(key.rpartition(".")[0] for key in keys)


def _behind(names: tuple[str, ...], found: Found) -> Event | None:
    """The first that is seen behind modules that have run; None where nothing is."""
    calls = found.tried.calls
    if calls is None:
        return None
    last = max((call.number for name in names for call in calls.calls_of(name)), default=None)
    for event in found.tried.events:
        behind = last is not None and event.call > last and event.unit not in names
        if not event.unit or (behind and event.what == "in" and "" not in names):
            return event
    return None


def _within(gap: float) -> str:
    return f"within {gap:.0e}" if gap else "exactly"


def _place(event) -> str:
    if not event.unit:
        return "the model gives"
    return f"arrives at {event.unit}" if event.what == "in" else f"{event.unit} gives"


def _by_name(name: str, other: str) -> str:
    return "by its name and shapes" if name == other else "by shapes, order and name"


def _largest(gaps) -> float | None:
    return max((gap for gap in gaps if gap is not None), default=None)


def _named(names: list[str], others: list[str]) -> str:
    if len(names) == 1:
        return names[0] if names == others else f"{names[0]} is {others[0]}"
    name, other = _varying(names), _varying(others)
    return f"{name}{'' if name == other else f' is {other}'} ({len(names)} of them)"


def _varying(names: list[str]) -> str:
    """The first name, with # for the numbers that are not the same in all."""
    numbers = list(zip(*(re.findall(r"\d+", name) for name in names), strict=True))
    same = iter(len(set(column)) == 1 for column in numbers)
    return re.sub(r"\d+", lambda found: found[0] if next(same) else "#", names[0])


def _joined(names) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]
