"""A sentence for each weight, or each kind of layer: why it is where it is; and what stays open.

NumPy only.
"""

import re
from collections.abc import Iterator

from common.setup.align import Fused, Stack
from common.setup.assignment import Models, grouped, is_turned_by_class, template
from common.setup.search import Found
from common.setup.trials import CLOSE, Event

_ALONE = "nothing in this pass tells them apart"


def proofs(found: Found, models: Models) -> Iterator[str]:
    """One sentence for all layers of a kind."""
    matches = found.assignment.matches
    by_partner: dict[tuple[str, str], list[str]] = {}
    for name, match in matches.items():
        by_partner.setdefault((template(name), template(match.torch)), []).append(name)
    for names in by_partner.values():
        yield f"{_named(names, [matches[n].torch for n in names])}: {_why(names, found, models)}"
    for same in _kinds(found):
        event = _behind(same[0].paddle, found)
        if event is not None and event.agrees:
            what = f"{_place(event)} is torch's ({_within(event.gap)})"
            yield f"{_as_one(same)}; so what {what}"
    for stack in found.assignment.stacks:
        yield f"{_as_stack(stack)}"
    seen = set()
    for pair, event in found.told_apart.items():
        kind = tuple(map(template, pair))
        if kind not in seen:
            seen.add(kind)
            yield (
                f"{pair[0]} and {pair[1]}: not the other way round, for then what "
                f"{_place(event)} is off by {event.gap:.0e} of its size"
            )
    kinds = set()
    for event in found.tried.failing:
        if event.what == "in" or not event.unit:
            if template(event.unit) not in kinds:
                kinds.add(template(event.unit))
                yield (
                    f"DIFFERS: what {_place(event)} is off by {event.gap:.0e} of its size, however "
                    "weights were assigned: the sides compute otherwise before it"
                )


def open_questions(found: Found, models: Models, told: str) -> Iterator[str]:
    """What is not decided, and what to write; `told` says already what is tied or left over."""
    matches = found.assignment.matches
    seen = set()
    for pair in found.alike:
        kind = tuple(map(template, pair))
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
    for same in _kinds(found):
        event = _behind(same[0].paddle, found)
        if event is None or not event.agrees:
            seen_ = (
                f"what {_place(event)} is off by {event.gap:.0e}" if event else "nothing shows it"
            )
            yield (
                f"{_as_one(same)}: that is the usual, but {seen_}, in this order and every other "
                "that was tried: look how both sides cut it, and mend case.py's convert"
            )
    for same in grouped(n for n in matches if (found.tried.gap(n, "out") or 0) > CLOSE).values():
        name, gap = same[0], found.tried.gap(same[0], "out")
        if any(models.paddle.units[name].key(local) in told for local in matches[name].locals):
            continue
        many = f" (and {len(same) - 1} more of its kind)" if len(same) > 1 else ""
        yield (
            f"{name}{many}: given what torch's {matches[name].torch} is given, it gives another "
            f"result, off by {gap:.0e} of its size, whichever way its weights lie: it is another "
            "layer, or computes otherwise; the check says how"
        )


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
        reasons.append(
            f"its rows, {parts} parts in {before} turns, stand in {after} turns in Paddle"
        )
    for local in sorted(match.locals):
        owner = unit.entries[local]
        if len(owner.shape) > 1 and (local in match.turned) != is_turned_by_class(owner):
            how = "transposed" if local in match.turned else "not transposed"
            reasons.append(f"its {local} is {how}")
        elif local in models.turnable(name, match) and gave is not None and gave <= CLOSE:
            how = "transposed" if local in match.turned else "as it is"
            reasons.append(f"its square {local} {how}")
    return "; ".join(reasons)


def _kinds(found: Found) -> list[list[Fused]]:
    """What is fused or split, all layers of a kind together."""
    kinds: dict[tuple, list[Fused]] = {}
    for each in found.assignment.fused:
        kind = (*map(template, (*each.paddle, *each.torch)), each.groups)
        kinds.setdefault(kind, []).append(each)
    return list(kinds.values())


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


def _behind(names: tuple[str, ...], found: Found) -> Event | None:
    """The first that is seen behind fused layers; None where nothing is."""
    events = found.tried.events
    last = max((e.call for e in events if e.unit in names), default=None)
    if last is None:
        return None
    later = (e for e in events if e.unit not in names and (e.call > last or not e.unit))
    return next((e for e in later if e.what == "in" or not e.unit), None)


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
