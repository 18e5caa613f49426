"""Whether both models drew the same random numbers by themselves; sentences for a check's notes."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from common.logs.draws import Draw, Pass, runs_of, side_by_side
from common.logs.dropouts import partners
from common.logs.pickle_machine import escaped
from common.logs.sidecar import Sidecar

# What a draw of a kind (common/pair/tape.py) is called.
_NAMES = {
    "uniform": "uniform numbers",
    "normal": "normal numbers",
    "integers": "integers",
    "permutation": "a permutation",
}


def draw_notes(torch: Sequence[Sidecar], paddle: Sequence[Sidecar]) -> list[str]:
    """What to say of the draws that the tape gave; nothing where the models drew none.

    The sidecars of both sides' logs, in the same order.  One sentence says that all were alike,
    or which are the first that are not.
    """
    count, first = 0, None
    for reference, candidate in zip(torch, paddle, strict=True):
        for case in dict.fromkeys([*reference.draws, *candidate.draws]):
            both = (runs_of(sidecar.draws.get(case, ())) for sidecar in (reference, candidate))
            for passes, ours, theirs in side_by_side(*both):
                if _amounts(ours) != _amounts(theirs):
                    return [_unlike(ours, theirs)]
                count += passes * len(ours)
                first = first or next(iter(ours), None)
    if first is None:
        return []
    return [
        f"both models drew the same random numbers, {count} times in all, all from the tape: "
        f"first {_described(first)}"
    ]


def dropout_notes(torch: Sequence[Sidecar], paddle: Sequence[Sidecar]) -> list[str]:
    """What to say of dropouts that other modules draw, and of the first that one side alone has.

    The sidecars of both sides' logs, in the same order.
    """
    renamed: dict[str, str] = {}
    unlike = []
    for reference, candidate in zip(torch, paddle, strict=True):
        for case in dict.fromkeys([*reference.dropouts, *candidate.dropouts]):
            both = (runs_of(sidecar.dropouts.get(case, ())) for sidecar in (reference, candidate))
            for _, ours, theirs in side_by_side(*both):
                found = partners(ours, theirs)
                pairs = ((ours[k], theirs[i]) for i, k in sorted(found.items()))
                renamed |= {b.site: a.site for a, b in pairs if a.site != b.site}
                lost = [draw for i, draw in enumerate(ours) if i not in found.values()]
                more = [draw for i, draw in enumerate(theirs) if i not in found]
                unlike += [f"torch has {_dropout(draw)}, which paddle has not" for draw in lost[:1]]
                unlike += [f"paddle has {_dropout(draw)}, which torch has not" for draw in more[:1]]
    notes = []
    if renamed:
        theirs, ours = next(iter(renamed.items()))
        notes.append(
            f"dropouts that the paddle side draws in other modules, {len(renamed)}, were given "
            "the masks of torch's, matched by rate, shape and order of calls in the modules around "
            f"them: first {escaped(ours)}, in paddle {escaped(theirs)}"
        )
    if unlike:
        notes.append(f"the models do not have the same dropouts: {unlike[0]}")
    return notes


def _dropout(draw: Draw) -> str:
    where = f" at {draw.place}" if draw.place else ""
    return escaped(f"{draw.kind} of shape {list(draw.shape)}{where}")


def _amounts(draws: Pass) -> Counter:
    return Counter(draw.key for draw in draws)


def _unlike(ours: Pass, theirs: Pass) -> str:
    """The sentence on a pass in which the models did not draw the same."""
    torch, paddle = _first_unlike(ours, theirs), _first_unlike(theirs, ours)
    if torch and paddle:
        what = f"torch drew {_described(torch)} where paddle drew {_described(paddle)}"
    elif torch:
        what = f"torch drew {_described(torch)}, which paddle did not draw"
    else:
        what = f"paddle drew {_described(paddle)}, which torch did not draw"
    return (
        "the models did not draw the same random numbers, and what is made of them cannot agree: "
        f"{what}"
    )


def _first_unlike(draws: Pass, others: Pass) -> Draw | None:
    """The first draw of which the other side has too few.

    Of several of one kind and shape, that which is out of line with the other side's: by the names
    of modules where the two sides share some, else by kind and shape alone.
    """
    missing = _amounts(draws) - _amounts(others)
    extra = {number for number, draw in enumerate(draws) if missing[draw.key]}
    if not extra:
        return None
    known = {_name(draw) for draw in others}
    alike = _name if any(_name(draws[number]) in known for number in extra) else _key
    out = extra & _out_of_line([alike(d) for d in draws], [alike(d) for d in others])
    return draws[min(out or extra)]


def _key(draw: Draw) -> tuple[str, ...]:
    return (draw.key,)


def _name(draw: Draw) -> tuple[str, ...]:
    return draw.site, draw.key


def _out_of_line(ours: Sequence, theirs: Sequence) -> set[int]:
    """Indices of ours that have no partner where both lists are aligned in order."""
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    matched = {number for block in blocks for number in range(block.a, block.a + block.size)}
    return set(range(len(ours))) - matched


def _described(draw: Draw) -> str:
    where = f" at {draw.place}" if draw.place else ""
    return escaped(f"{_NAMES.get(draw.kind, draw.kind)} of shape {list(draw.shape)}{where}")
