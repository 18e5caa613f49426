"""Both sides' scores, as their logs hold them: of steps 2 and 5.

The guide's pair of these steps holds the scores and nothing else (common/logs/guide_pair.py); what
it holds over torch's is shown as it was logged, with what the guide allows of it.
"""

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.logs.guide_pair import full_stem, is_no_share, is_over_torch
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES

STEMS = ("metric", "train_align")  # of pairs that hold scores
_DIGITS = 7  # significant ones: a float32's


@dataclass(frozen=True)
class Score:
    """One score of one model, on both sides; None where a side has none."""

    name: str
    torch: float | None
    paddle: float | None
    limit: float  # what the guide allows of a difference
    over_torch: bool = False  # no share of 1: allowed is a part of torch's score

    @property
    def difference(self) -> float | None:
        """How far apart the two sides are."""
        if self.torch is None or self.paddle is None:
            return None
        return abs(self.torch - self.paddle)

    @property
    def passed(self) -> bool:
        """The guide's rule, by itself; NaN passes nowhere."""
        return self.difference is not None and self.difference <= self.limit

    def of_torchs(self, value: float | None) -> str:
        """A difference as it is printed: by itself, or as a percentage of torch's score."""
        if value is None:
            return "–"
        if not self.over_torch:
            return f"{value:.2g}"
        return f"{100.0 * value / abs(self.torch):.2g} % of torch's"


def allowed(limit: float) -> str:
    """What the guide allows of scores, in words."""
    return f"{limit:g}, or {100.0 * limit:g} % of torch's score where that is no share of 1"


def compared(name: str, torch: float | None, paddle: float | None, limit: float) -> Score:
    """Both sides' score; `limit` is what the guide allows of a share of 1."""
    over = torch is not None and is_no_share(name, torch)
    return Score(name, torch, paddle, limit * abs(torch) if over else limit, over)


def scores_of(folder: Path, stem: str, limit: float) -> list[Score]:
    """The scores of a result folder's pair; none where that step has none, or no such pair.

    Scores that the pair holds over torch's are those of the full logs.
    """
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    if stem not in STEMS or not all(log.is_file() for log in logs):
        return []
    with suppress(UserError), ExitStack() as stack:  # the result itself says what cannot be read
        pairs = [stack.enter_context(read_log(path)) for path in logs]
        keys = sidecar_of(logs[0]).selected.get("keys", {})
        over = {key: full for key, full in keys.items() if is_over_torch(key, full)}
        full = [ResultFolder(folder).log(full_stem(stem), side) for side in SIDES] if over else []
        whole = [stack.enter_context(read_log(path)) for path in full]
        scores = []
        single = [key for log in pairs for key in log if log.shape(key) == ()]
        for key in dict.fromkeys(single):
            name = over.get(key, key)
            sides = whole if key in over else pairs
            torch, paddle = (float(log[name]) if name in log else None for log in sides)
            scores.append(compared(name, torch, paddle, limit))
        return scores
    return []


def figure(value: float | None) -> str:
    """A score as it is printed."""
    return "–" if value is None else f"{value:.{_DIGITS}g}"
