"""Both sides' scores, as their logs hold them: of steps 2 and 5.

The guide's pair of these steps holds the scores and nothing else (common/logs/guide_pair.py).
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common.logs.reader import read_log
from common.logs.result_folder import ResultFolder
from common.system.errors import UserError
from common.system.frameworks import SIDES

STEMS = ("metric", "train_align")  # of pairs that hold scores
_DIGITS = 7  # significant ones: a float32's


@dataclass(frozen=True)
class Score:
    """One score of one model, on both sides; None where a side has none."""

    name: str
    torch: float | None
    paddle: float | None
    limit: float  # what the guide allows of a difference

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


def scores_of(folder: Path, stem: str, limit: float) -> list[Score]:
    """The scores of a result folder's pair; none where that step has none, or no such pair."""
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    if stem not in STEMS or not all(log.is_file() for log in logs):
        return []
    found: list[dict[str, float]] = []
    with suppress(UserError):  # the result itself says what cannot be read
        for path in logs:
            with read_log(path) as log:
                found.append({key: float(log[key]) for key in _single(log)})
        torch, paddle = found
        names = dict.fromkeys([*torch, *paddle])
        return [Score(name, torch.get(name), paddle.get(name), limit) for name in names]
    return []


def _single(log) -> Iterable[str]:
    return (key for key in log if log.shape(key) == ())


def figure(value: float | None) -> str:
    """A score as it is printed."""
    return "–" if value is None else f"{value:.{_DIGITS}g}"
