"""Compare which random numbers both models drew by themselves, for the notes of a check."""

from collections import Counter
from collections.abc import Sequence

from twincheck.common.logs.draws import Draw, Pass, runs_of, side_by_side
from twincheck.common.logs.dropouts import partners
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import escaped

# What a draw of a kind (common/pair/tape.py) is called.
_NAMES = {
    "uniform": Kind.UNIFORM_NUMBERS(),
    "normal": Kind.NORMAL_NUMBERS(),
    "integers": Kind.INTEGERS(),
    "permutation": Kind.PERMUTATION(),
}


def draw_notes(torch: Sequence[Sidecar], paddle: Sequence[Sidecar], passed=False) -> list[str]:
    """Return a note on the draws that the tape gave; an empty list where the models drew none.

    The sidecars of both sides' logs, in the same order.  One reason says that all were alike,
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
    return [Kind.DRAWS_ALIKE(count=count, draw=_described(first))]


def dropout_notes(torch: Sequence[Sidecar], paddle: Sequence[Sidecar]) -> list[str]:
    """Return notes on dropouts that other modules draw, and the first that one side alone has.

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
                    kind = Kind.DROPOUT_IDLE if idle else Kind.DROPOUT_MISSING
                    unlike.append(kind(has=has, draw=_described(one), lacks=lacks))
    notes = []
    if renamed:
        theirs, ours = map(escaped, next(iter(renamed.items())))
        notes.append(Kind.DROPOUTS_ELSEWHERE(count=len(renamed), torch=ours, paddle=theirs))
    return notes + unlike[:1]


def _matched(ours: Pass, theirs: Pass) -> tuple[list[tuple[Draw, Draw]], list[Draw], list[Draw]]:
    """The partners of a pass, and what torch and what Paddle alone have."""
    found = partners(ours, theirs)
    pairs = [(ours[k], theirs[i]) for i, k in sorted(found.items())]
    lost = [draw for k, draw in enumerate(ours) if k not in found.values()]
    return pairs, lost, [draw for i, draw in enumerate(theirs) if i not in found]


def _amounts(draws: Pass) -> Counter:
    return Counter(draw.key for draw in draws)


def _unlike(ours: Pass, theirs: Pass, passed: bool) -> str:
    """Return the reason why the models did not draw the same in a pass: the first that differs.

    That is of partners which are of another kind or shape, else what has none on the other side.
    """
    pairs, lost, more = _matched(ours, theirs)
    alone = next(iter(lost), None), next(iter(more), None)
    torch, paddle = next((pair for pair in pairs if pair[0].key != pair[1].key), alone)
    if torch and paddle:
        what = Kind.DREW_ANOTHER(torch=_described(torch), paddle=_described(paddle))
    elif torch:
        what = Kind.DREW_IN_TORCH_ALONE(draw=_described(torch))
    else:
        what = Kind.DREW_IN_PADDLE_ALONE(draw=_described(paddle))
    return (Kind.DRAWS_DIFFER_HARMLESSLY if passed else Kind.DRAWS_DIFFER)(what=what)


def _described(draw: Draw) -> str:
    what, shape = _NAMES.get(draw.kind) or escaped(draw.kind), str(list(draw.shape))
    if not draw.place:
        return Kind.DRAW(what=what, shape=shape)
    return Kind.DRAW_AT(what=what, shape=shape, place=escaped(draw.place))
