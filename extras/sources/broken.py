"""Lines of a data file that cannot be used: they are counted, and a note names the first few."""

from collections import Counter
from pathlib import Path

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
            place = name or self.path.name
            self.first.append(f"{place}{f':{line}' if line else ''} ({why})")

    def state(self) -> dict:
        """What a progress file keeps; BrokenLines(path, state) is the same again."""
        return {"counts": dict(self.counts), "first": self.first}

    @property
    def total(self) -> int:
        """How many were left out."""
        return sum(self.counts.values())

    def notes(self, of: str = "lines") -> list[str]:
        """One note, or none where nothing was left out."""
        if not self.total:
            return []
        more = ", …" if self.total > len(self.first) else ""
        reasons = ", ".join(f"{count:,} {why}" for why, count in self.counts.most_common())
        return [f"data: {self.total:,} {of} left out ({reasons}): {', '.join(self.first)}{more}"]
