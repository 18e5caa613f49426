"""Whether both models drew the same random numbers by themselves; sentences for a check's notes."""

from collections import Counter
from collections.abc import Sequence

from twincheck.common.logs.draws import Draw, Pass, runs_of, side_by_side
from twincheck.common.logs.dropouts import partners
from twincheck.common.logs.pickle_machine import escaped
from twincheck.common.logs.sidecar import Sidecar

# What a draw of a kind (common/pair/tape.py) is called.
_NAMES = {
    "uniform": "uniform numbers",
    "normal": "normal numbers",
    "integers": "integers",
    "permutation": "a permutation",
}


def draw_notes(torch: Sequence[Sidecar], paddle: Sequence[Sidecar], passed=False) -> list[str]:
    """What to say of the draws that the tape gave; nothing where the models drew none.

    The sidecars of both sides' logs, in the same order.  One sentence says that all were alike,
    or which are the first that are not, which a check may have `passed` all the same.
    """
    count, first = 0, None
    for reference, candidate in zip(torch, paddle, strict=True):
        for case in dict.fromkeys([*reference.draws, *candidate.draws]):
            both = (runs_of(sidecar.draws.get(case, ())) for sidecar in (reference, candidate))
            for passes, ours, theirs in side_by_side(*both):
                if _amounts(ours) != _amounts(theirs):
                    return [_unlike(ours, theirs, passed)]
                count += passes * len(ours)
                first = first or next(iter(ours), None)
    if first is None:
        return []
    return [
        f"both models drew the same random numbers, {count} times in all, all from the tape: "
        f"first {_described(first)}"
    ]


def unseeded_notes(side: str, sidecars: Sequence[Sidecar]) -> list[str]:
    """What to say of a model that is built another one in every run, whatever the seed."""
    found = [one for sidecar in sidecars for one in sidecar.unseeded.values()]
    if not found:
        return []
    place, value = (escaped(found[0].get(name, "")) for name in ("place", "value"))
    if value:
        return [
            f"the {side} model's {value} ({place}) is another each time it is built, so that the "
            "same command may come to another result"
        ]
    return [
        f"the {side} model draws numbers at {place} that no seed decides, so that the same command "
        "may come to another result: seed them"
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
                pairs, lost, more = _matched(ours, theirs)
                renamed |= {b.site: a.site for a, b in pairs if a.site != b.site}
                for has, one, lacks, told in (
                    *(("torch", one, "paddle", candidate) for one in lost[:1]),
                    *(("paddle", one, "torch", reference) for one in more[:1]),
                ):
                    idle = any(f"/{at}".endswith(f"/{one.site}") for at in told.idle)
                    not_so = "has with rate 0" if idle else "has not"
                    unlike.append(f"{has} has {_described(one)}, which {lacks} {not_so}")
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


def _matched(ours: Pass, theirs: Pass) -> tuple[list[tuple[Draw, Draw]], list[Draw], list[Draw]]:
    """The partners of a pass, and what torch and what Paddle alone have."""
    found = partners(ours, theirs)
    pairs = [(ours[k], theirs[i]) for i, k in sorted(found.items())]
    lost = [draw for k, draw in enumerate(ours) if k not in found.values()]
    return pairs, lost, [draw for i, draw in enumerate(theirs) if i not in found]


def _amounts(draws: Pass) -> Counter:
    return Counter(draw.key for draw in draws)


def _unlike(ours: Pass, theirs: Pass, passed: bool) -> str:
    """The sentence on a pass in which the models did not draw the same: of the first that differs.

    That is of partners which are of another kind or shape, else what has none on the other side.
    """
    pairs, lost, more = _matched(ours, theirs)
    alone = next(iter(lost), None), next(iter(more), None)
    torch, paddle = next((pair for pair in pairs if pair[0].key != pair[1].key), alone)
    if torch and paddle:
        what = f"torch drew {_described(torch)} where paddle drew {_described(paddle)}"
    elif torch:
        what = f"torch drew {_described(torch)}, which paddle did not draw"
    else:
        what = f"paddle drew {_described(paddle)}, which torch did not draw"
    so = "nothing that decides depends on them" if passed else "what is made of them cannot agree"
    return f"the models did not draw the same random numbers, and {so}: {what}"


def _described(draw: Draw) -> str:
    where = f" at {draw.place}" if draw.place else ""
    return escaped(f"{_NAMES.get(draw.kind, draw.kind)} of shape {list(draw.shape)}{where}")
