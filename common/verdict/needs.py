"""What a judgement needs: the further run that would show more, and for which row."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from twincheck.common.system.reasons import Kind


class Need(NamedTuple):
    """A further run that would show more."""

    key: str  # of the first row that it would show more of
    # Of the noise and of a repeated run: the passes, each a case and the optimizer's set-up, which
    # is empty for the case's first pass.
    passes: tuple[tuple[str, str], ...] = ()


# In the order in which they are to be had.  Teacher-forced runs come last: a row that noise or a
# repeated run shows to be rounding's has no origin.  Those with exact operators, one run each, are
# needed where teacher-forced ones are there.
NAMES = {
    "exact": Kind.NEED_EXACT,
    "free": Kind.NEED_FREE,
    "noise": Kind.NEED_NOISE,
    "again": Kind.NEED_AGAIN,
    "teacher_forced": Kind.NEED_TEACHER_FORCED,
}


def together(several: Iterable[Mapping[str, Need]]) -> dict[str, Need]:
    """Return the needs of a step's logs as one, in their order."""
    found: dict[str, Need] = {}
    for needs in several:
        for run, need in needs.items():
            former = found.get(run, need)
            passes = tuple(dict.fromkeys((*former.passes, *need.passes)))
            found[run] = Need(former.key, passes)
    return {run: found[run] for run in NAMES if run in found}
