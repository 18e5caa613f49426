"""Lines of a data file that cannot be used: they are counted, and a note names the first few."""

from collections import Counter
from collections.abc import Callable

from twincheck.extras.sources import Kind

NAMED = 3  # lines that a note names


class BrokenLines:
    """What was left out of one file, and why."""

    def __init__(self, name: str):
        self.name = name
        self.counts: Counter[str] = Counter()  # reason -> lines
        self.first: list[str] = []  # of the form "reviews.json:17 (no JSON)"

    def add(self, line: int, why: str) -> None:
        """Count a line, from 1, that is left out."""
        self._add(why, lambda: Kind.LINE_LEFT_OUT(line=line, file=self.name, why=why))

    def add_file(self, name: str, why: str) -> None:
        """Count a file that is left out as a whole."""
        self._add(why, lambda: Kind.FILE_LEFT_OUT(file=name, why=why))

    def _add(self, why: str, told: Callable[[], str]) -> None:
        self.counts[why] += 1
        if len(self.first) < NAMED:
            self.first.append(told())

    def notes(self, left_out: Callable[..., str] = Kind.LINES_LEFT_OUT) -> list[str]:
        """Return one note, or none where nothing was left out."""
        total = self.counts.total()
        if not total:
            return []
        first = self.first + ["…"] * (total > len(self.first))
        reasons = [Kind.LEFT_OUT_BECAUSE(count=n, why=w) for w, n in self.counts.most_common()]
        return [Kind.DATA(what=left_out(count=total, reasons=reasons, first=first))]
