"""The differences of two results: their rows, and what both were made in and of.

Verdicts decide what got worse, as they decide everywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.verdict.row import AGREEING, SEVERITY
from twincheck.extras.compared import Kind
from twincheck.extras.compared.read import Found, Name, Row

# What became of a row, the worst first.
WORSE = ("fails now", "new, fails", "worse")
STILL = "fails as before"
BETTER = ("agrees now", "better")
NEW, GONE, SAME = "new", "gone", "as before"
CHANGES = (*WORSE, STILL, *BETTER, GONE, NEW, SAME)
BOTH = "both"
WITHOUT = "–"


@dataclass(frozen=True)
class Change:
    """The change of one row."""

    name: Name
    key: str
    what: str  # of CHANGES
    before: Row | None
    after: Row | None

    @property
    def badness(self) -> tuple:
        """By which the worst rows come first: what became of them, where it starts, the verdict."""
        row = self.after or self.before
        return CHANGES.index(self.what), not row["origin"], -rank(row)


@dataclass(frozen=True)
class Difference:
    """One thing around two results that is otherwise."""

    what: str
    side: str  # torch, paddle or both; empty for what is no side's
    before: str
    after: str
    of: tuple[Name, ...]  # the results that differ in it; the values are the first one's


@dataclass(frozen=True)
class Compared:
    """All that two results have otherwise."""

    old: dict[Name, Found]
    new: dict[Name, Found]
    changes: list[Change]  # a row each, the worst first

    @property
    def names(self) -> list[Name]:
        """The results that either has, by model and step."""
        return sorted({**self.old, **self.new}, key=lambda name: (name[2], name[:2]))

    @property
    def common(self) -> list[Name]:
        """Return the names that both have."""
        return [name for name in self.names if name in self.old and name in self.new]

    def of(self, *whats: str, name: Name | None = None) -> list[Change]:
        """Return the rows of which that became, of one result or of all."""
        return [c for c in self.changes if c.what in whats and name in (None, c.name)]

    @property
    def exit_code(self) -> int:
        """0 where nothing got worse, 1 where something did."""
        return int(bool(self.of(*WORSE)))


def compare(old: dict[Name, Found], new: dict[Name, Found], *paths: Path) -> Compared:
    """Compare two results; raises UserError where they have no step of a pair in common."""
    if not old.keys() & new.keys():
        named = [", ".join(sorted(map(titled, told))) for told in (old, new)]
        before, after = map(str, paths)
        raise UserError(Kind.APART(old=before, olds=named[0], new=after, news=named[1]))
    names = dict.fromkeys((*old, *new))
    changes = [change for name in names for change in _changes(name, old.get(name), new.get(name))]
    return Compared(old, new, sorted(changes, key=lambda change: change.badness))


def titled(name: Name) -> str:
    """Return `step 4 parallel, MODEL`."""
    step, other, model = name
    return Kind.STEP(step=step, other=f" {other}" if other else "", model=model)


def rank(row: Row) -> int:
    """Return a verdict's place from harmless to worst; IDENTICAL and ROUNDING share one."""
    return 0 if row["verdict"] in AGREEING else SEVERITY.index(row["verdict"])


def _changes(name: Name, before: Found | None, after: Found | None) -> Iterator[Change]:
    """Yield each row's change; of a result that is new as a whole, of those that fail."""
    was, now = (found.rows if found else {} for found in (before, after))
    for key in dict.fromkeys((*now, *was)):
        rows = was.get(key), now.get(key)
        failed = rows[0] is not None and before.fails(rows[0])
        failing = rows[1] is not None and after.fails(rows[1])
        if failing or (before and after):
            yield Change(name, key, _what(*rows, failed, failing), *rows)


def _what(was: Row | None, now: Row | None, failed: bool, failing: bool) -> str:
    if now is None:
        return GONE
    if was is None:
        return WORSE[1] if failing else NEW
    if failed != failing:
        return WORSE[0] if failing else BETTER[0]
    further = rank(now) - rank(was)
    if further:
        return WORSE[2] if further > 0 else BETTER[1]
    return STILL if failing else SAME


def differences(found: Compared) -> list[Difference]:
    """Return what the results that both have were made in and of otherwise."""
    seen: dict[tuple[str, str], list] = {}
    for name in found.common:
        before, after = found.old[name].facts, found.new[name].facts
        for fact in dict.fromkeys((*after, *before)):
            values = before.get(fact, WITHOUT), after.get(fact, WITHOUT)
            if values[0] != values[1]:
                seen.setdefault(fact, [values, []])[1].append(name)
    told: dict[tuple, list[str]] = {}
    for (what, side), (values, names) in seen.items():
        told.setdefault((what, *values, tuple(names)), []).append(side)
    return [
        Difference(what, BOTH if len(sides) == 2 else sides[0], before, after, names)
        for (what, before, after, names), sides in told.items()
    ]
