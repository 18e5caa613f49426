"""The random numbers that a model drew by itself, as a sidecar lists them.

    [{"passes": 10, "draws": [{"kind": "normal", "shape": [4, 8], "site": "encoder",
                               "place": "torch_model.py:31"}]}]

A pass is one run of the model with what belongs to it; those that draw the same in a row are said
once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Draw:
    """One draw.

    kind    of common/pair/tape.py's KINDS
    site    the module that ran, by the reference's name
    place   file:line of the model
    """

    kind: str
    shape: tuple[int, ...]
    site: str
    place: str

    @property
    def key(self) -> str:
        """Return what draws of the same numbers share: kind and shape, but for lengths of 1."""
        return _key(self.kind, self.shape)

    @property
    def key_of_sample(self) -> str:
        """Return the key without the first axis, which may be that of a batch."""
        return _key(self.kind, self.shape[1:])


def _key(kind: str, shape: tuple[int, ...]) -> str:
    return f"{kind} {[length for length in shape if length != 1]}"


Groups = Sequence[Mapping[str, object]]  # as above
Pass = tuple[Draw, ...]
Runs = Sequence[tuple[int, Pass]]  # how many passes in a row, and what each of them drew


def grouped(passes: Iterable[Sequence[Draw]]) -> list[dict[str, object]]:
    """Return the passes as a sidecar lists them: equal ones in a row once, with their number."""
    groups: list[dict[str, object]] = []
    for draws in passes:
        entries = [asdict(draw) | {"shape": list(draw.shape)} for draw in draws]
        if groups and groups[-1]["draws"] == entries:
            groups[-1]["passes"] += 1
        else:
            groups.append({"passes": 1, "draws": entries})
    return groups


def runs_of(groups: Groups) -> Runs:
    """Return a sidecar's groups as runs: how many passes, and the draws of each."""
    return [
        (group["passes"], tuple(Draw(**d | {"shape": tuple(d["shape"])}) for d in group["draws"]))
        for group in groups
        if group["passes"]
    ]


def pass_at(runs: Runs, number: int) -> Pass:
    """Return the draws of a pass, counted from 0; those of the last one where there are fewer."""
    draws: Pass = ()
    for count, drawn in runs:
        draws = drawn
        number -= count
        if number < 0:
            break
    return draws


def side_by_side(runs: Runs, others: Runs) -> Iterator[tuple[int, Pass, Pass]]:
    """(how many passes in a row, what each side drew in them); nothing where it has no more."""
    waiting = [iter(runs), iter(others)]
    left = [(0, ()), (0, ())]  # of each side's group
    while True:
        left = [
            one if one[0] else next(side, (0, ())) for one, side in zip(left, waiting, strict=True)
        ]
        together = min((count for count, _ in left if count), default=0)
        if not together:
            return
        yield together, left[0][1], left[1][1]
        left = [(max(count - together, 0), draws) for count, draws in left]
