"""A sentence for each weight, or each kind of layer: why it is where it is; and what stays open.

NumPy only.
"""

import re
from collections.abc import Iterator, Sequence

from twincheck.common.logs.sidecar import setting_text
from twincheck.common.system.reasons import is_of
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.align import Fused, Stack
from twincheck.extras.new_pair.assignment import Models, alike, grouped, is_turned_by_class
from twincheck.extras.new_pair.search import Found
from twincheck.extras.new_pair.structure import halved
from twincheck.extras.new_pair.trials import CLOSE, Event

# A layer's result that is off by less of its size has the right weights, but another setting.
_COMPUTES_OTHERWISE = 0.1
_IN_TRAINING = ("momentum", "rate")  # settings that no pass in eval mode depends on


def proofs(found: Found, models: Models) -> Iterator[str]:
    """One sentence for all layers of a kind."""
    matches = found.assignment.matches
    by_partner = grouped(matches, lambda name: (alike(name), alike(matches[name].torch)))
    for names in by_partner.values():
        layer = _named(names, [matches[n].torch for n in names])
        yield Kind.LAYER(layer=layer, reasons=_why(names, found, models))
    for said, event in _joined_or_cut(found):
        if event is not None and event.agrees:
            yield Kind.SO_IS_TORCHS(said=said, value=_value(event), within=_within(event.gap))
    seen = set()
    for pair, event in found.told_apart.items():
        kind = tuple(map(alike, pair))
        if kind not in seen:
            seen.add(kind)
            both = {"first": pair[0], "second": pair[1]}
            yield Kind.NOT_EXCHANGED(**both, value=_value(event), gap=event.gap)
    yield from _differences(found, models)


def _differences(found: Found, models: Models) -> Iterator[str]:
    """Yield where the sides compute otherwise, whatever the weights."""
    arrived = [e for e in found.tried.failing if e.what == "in" or not e.unit]
    for events in _by_kind(arrived):
        yield Kind.DIFFERS_BEFORE(value=_value(events[0]), gap=events[0].gap)
    for same in grouped(sorted(found.more), alike).values():
        yield Kind.COMPUTES_MORE(layer=_with_its_kind(same))
    near = [e for e in found.tried.failing if e.what == "out" and e.unit not in ("", *found.more)]
    for events in _by_kind([e for e in near if e.gap <= _COMPUTES_OTHERWISE]):
        layer = _with_its_kind([e.unit for e in events])
        built = _by_settings(events[0].unit, found, models)
        yield Kind.DIFFERS_ITSELF(layer=layer, gap=events[0].gap, built=built)


def _by_settings(name: str, found: Found, models: Models) -> str:
    """Name the settings in which a unit and its partner differ; an epsilon that one alone has."""
    mine = models.paddle.settings.get(name, {})
    its = models.torch.settings.get(found.assignment.matches[name].torch, {})
    told = [
        Kind.SETTING_DIFFERS(
            setting=what, paddle=setting_text(what, value), torch=setting_text(what, its[what])
        )
        for what, value in mine.items()
        if what not in _IN_TRAINING and its.get(what, value) != value
    ]
    if told:
        return Kind.SETTINGS_DIFFER(settings=told)
    return Kind.EPSILON_PERHAPS() if ("epsilon" in mine) != ("epsilon" in its) else ""


def _by_kind(events: list[Event]) -> list[list[Event]]:
    return list(grouped(events, lambda event: alike(event.unit)).values())


def open_questions(found: Found, models: Models, told: str) -> Iterator[str]:
    """Yield what is not decided, with what to write; `told` has what is tied or left over."""
    matches = found.assignment.matches
    if not found.tried.events:
        guessed = [n for n, match in matches.items() if _last(n) != _last(match.torch)]
        kinds = [names[0] for names in grouped(guessed, alike).values()]
        if kinds:
            pairs = [Kind.NAME_FOR(paddle=name, torch=matches[name].torch) for name in kinds]
            yield Kind.GUESSED(pairs=pairs)
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
        said = {"first": pair[0], "second": pair[1]}
        said |= {"torch_first": others[0], "torch_second": others[1]}
        rename = dict(zip(pair, reversed(others), strict=True))
        yield Kind.NOT_TOLD_APART(**said, rename=repr(rename))
    for said, event in _joined_or_cut(found):
        if event is None:
            yield Kind.ORDER_UNSEEN(said=said)
        elif not event.agrees:
            yield Kind.ORDER_UNSURE(said=said, value=_value(event), gap=event.gap)
    gaps = {name: found.tried.gap(name, "out") or 0 for name in matches if name not in found.more}
    far = [name for name, gap in gaps.items() if gap > _COMPUTES_OTHERWISE]
    for same in grouped(far, alike).values():
        name, gap = same[0], found.tried.gap(same[0], "out")
        if any(models.paddle.units[name].key(local) in told for local in matches[name].locals):
            continue
        said = {"layer": _with_its_kind(same), "torch": matches[name].torch, "gap": gap}
        built = _by_settings(name, found, models)
        if is_of(built, Kind.SETTINGS_DIFFER):
            yield Kind.RESULT_DIFFERS(**said, built=built)
        else:  # an epsilon by itself makes no such gap
            yield Kind.LAYER_DIFFERS(**said)


def _joined_or_cut(found: Found) -> Iterator[tuple[str, Event | None]]:
    """Yield what is fused, split or stacked, and the first event behind it."""
    kinds = grouped(
        found.assignment.fused, lambda f: (*map(alike, (*f.paddle, *f.torch)), f.groups)
    )
    for same in kinds.values():
        yield _as_one(same), _behind(same[0].paddle, found)
    for stack in found.assignment.stacks:
        yield _as_stack(stack), _behind(_modules_of(stack), found)


def _with_its_kind(same: list[str]) -> str:
    several = len(same) > 1
    return Kind.SEVERAL_OF_KIND(name=same[0], count=len(same) - 1) if several else same[0]


def _why(names: list[str], found: Found, models: Models) -> list[str]:
    """Return the reasons by which units of one kind were found."""
    tried, name = found.tried, names[0]
    match = found.assignment.matches[name]
    unit, partner = models.paddle.units[name], models.torch.units[match.torch]
    given, gave = (_largest(tried.gap(n, what) for n in names) for what in ("in", "out"))
    reasons = []
    if given is not None and given <= CLOSE:
        reasons.append(Kind.GIVEN_TORCHS(within=_within(given)))
    elif given is not None:
        reasons.append(Kind.DIFFERS_BEFORE_IT(found=_by_name(name, match.torch)))
    if gave is not None and gave <= CLOSE:
        reasons.append(Kind.GIVES_TORCHS(within=_within(gave)))
    if not reasons:
        reasons.append(_by_name(name, match.torch))
        if partner.virtual:
            reasons.append(Kind.ROWS_OF_PROJECTION(attention=partner.virtual))
        elif not unit.calls:
            reasons.append(Kind.CALL_MISSING())
    if match.regrouped:
        parts, before, after = match.regrouped
        reasons.append(Kind.ROWS_IN_TURNS(parts=parts, torch=before, paddle=after))
    for local in sorted(match.locals):
        owner = unit.entries[local]
        if len(owner.shape) > 1 and (local in match.turned) != is_turned_by_class(owner):
            turned = local in match.turned
            kind = Kind.WEIGHT_TRANSPOSED if turned else Kind.WEIGHT_NOT_TRANSPOSED
            reasons.append(kind(weight=local))
        elif local in models.turnable(name, match) and gave is not None and gave <= CLOSE:
            kind = Kind.SQUARE_TRANSPOSED if local in match.turned else Kind.SQUARE_AS_IT_IS
            reasons.append(kind(weight=local))
        its = match.locals[local]
        shape = partner.entries[its].shape
        if halved(local, its):
            reasons.append(Kind.WEIGHT_IS(weight=local, torch=its))
        elif len(shape) != len(owner.shape):
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
    return Kind.WITHIN(gap=gap) if gap else Kind.EXACTLY()


def _value(event) -> str:
    if not event.unit:
        return Kind.VALUE_OF_MODEL()
    return (Kind.VALUE_ARRIVING if event.what == "in" else Kind.VALUE_GIVEN)(unit=event.unit)


def _by_name(name: str, other: str) -> str:
    return Kind.FOUND_BY_NAME() if name == other else Kind.FOUND_BY_ORDER()


def _largest(gaps) -> float | None:
    return max((gap for gap in gaps if gap is not None), default=None)


def _named(names: list[str], others: list[str]) -> str:
    name, other = _varying(names), _varying(others)
    said = name if name == other else Kind.LAYER_IS(paddle=name, torch=other)
    return _several(said, len(names))


def _several(what: str, count: int) -> str:
    return Kind.SEVERAL_ALIKE(what=what, count=count) if count > 1 else what


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
