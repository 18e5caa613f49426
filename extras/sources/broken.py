"""Lines of a data file that cannot be used: they are counted, and a note names the first few."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from twincheck.extras.sources import Kind

NAMED = 3  # lines that a note names


class BrokenLines:
    """What was left out of one file, and why."""

    def __init__(self, path: Path, state: dict | None = None):
        self.path = path
        state = state or {}
        self.counts = Counter(state.get("counts", {}))  # reason -> lines
        self.first = list(state.get("first", []))  # of the form "reviews.json:17 (no JSON)"

    def add(self, line: int | None, why: str, name: str | None = None) -> None:
        """One line, counted from 1, or a file as a whole, that is left out."""
        self.counts[why] += 1
        if len(self.first) < NAMED:
            of = {"file": name or self.path.name, "why": why}
            told = Kind.LINE_LEFT_OUT(line=line, **of) if line else Kind.FILE_LEFT_OUT(**of)
            self.first.append(told)

    def state(self) -> dict:
        """What a progress file keeps; BrokenLines(path, state) is the same again."""
        return {"counts": dict(self.counts), "first": self.first}

    @property
    def total(self) -> int:
        """How many were left out."""
        return sum(self.counts.values())

    def notes(self, left_out: Callable[..., str] = Kind.LINES_LEFT_OUT) -> list[str]:
        """One note, or none where nothing was left out."""
        if not self.total:
            return []
        first = self.first + ["…"] * (self.total > len(self.first))
        reasons = [Kind.LEFT_OUT_BECAUSE(count=n, why=w) for w, n in self.counts.most_common()]
        return [Kind.DATA(what=left_out(count=self.total, reasons=reasons, first=first))]
