"""The differences of two results: their rows, and what both were made in and of.

Verdicts decide what got worse, as they decide everywhere.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
WITHOUT = "–"


class Change(NamedTuple):
    """The change of one row."""

    name: Name
    key: str
    change: str  # of CHANGES
    before: Row | None
    after: Row | None

    @property
    def badness(self) -> tuple:
        """By which the worst rows come first: what became of them, where it starts, the verdict."""
        row = self.after or self.before
        return CHANGES.index(self.change), not row["origin"], -rank(row)


class Difference(NamedTuple):
    """One thing around two results that is otherwise."""

    what: str
    side: str  # torch, paddle or both; empty for what is no side's
    before: str
    after: str
    of: list[Name]  # the results that differ in it; the values are the first one's


class Compared(NamedTuple):
    """All that two results have otherwise."""

    old: dict[Name, Found]
    new: dict[Name, Found]
    changes: list[Change]  # a row each, the worst first
    names: list[Name]  # that either has, by model and step
    common: list[Name]  # that both have

    def of(self, *whats: str, name: Name | None = None) -> list[Change]:
        """Return the rows of which that became, of one result or of all."""
        return [c for c in self.changes if c.change in whats and name in (None, c.name)]

    def in_short(self, name: Name) -> list[dict | None]:
        """Return what was and is found of a name; None where it is not there."""
        return [told[name].told if name in told else None for told in (self.old, self.new)]


def compare(old: dict[Name, Found], new: dict[Name, Found], *paths: Path) -> Compared:
    """Compare two results; raises UserError where they have no step of a pair in common."""
    names = sorted({**old, **new}, key=lambda name: (name.model, name))
    common = [name for name in names if name in old and name in new]
    if not common:
        olds, news = (", ".join(name.title for name in sorted(told)) for told in (old, new))
        raise UserError(Kind.APART(old=str(paths[0]), olds=olds, new=str(paths[1]), news=news))
    changes = [one for name in names for one in _changes(name, old.get(name), new.get(name))]
    return Compared(old, new, sorted(changes, key=lambda one: one.badness), names, common)


def rank(row: Row) -> int:
    """Return a verdict's place from harmless to worst; IDENTICAL and ROUNDING share one."""
    return 0 if row["verdict"] in AGREEING else SEVERITY.index(row["verdict"])


def _changes(name: Name, before: Found | None, after: Found | None) -> Iterator[Change]:
    """Yield each row's change; of a result that is new as a whole, of those that fail."""
    rows_before, rows_after = (found.rows if found else {} for found in (before, after))
    for key in dict.fromkeys((*rows_after, *rows_before)):
        was, now = rows_before.get(key), rows_after.get(key)
        failed, fails = bool(before and before.fails(was)), bool(after and after.fails(now))
        if fails or (before and after):
            yield Change(name, key, _what(was, now, failed, fails), was, now)


def _what(was: Row | None, now: Row | None, failed: bool, fails: bool) -> str:
    if now is None:
        return GONE
    if was is None:
        return WORSE[1] if fails else NEW
    if failed != fails:
        return WORSE[0] if fails else BETTER[0]
    if rank(now) != rank(was):
        return WORSE[2] if rank(now) > rank(was) else BETTER[1]
    return STILL if fails else SAME


def differences(found: Compared) -> list[Difference]:
    """Return what the results that both have were made in and of otherwise."""
    seen: dict[tuple[str, str], Difference] = {}
    for name in found.common:
        facts = found.old[name].facts, found.new[name].facts
        for fact in dict.fromkeys((*facts[1], *facts[0])):
            before, after = (told.get(fact, WITHOUT) for told in facts)
            if before != after:
                seen.setdefault(fact, Difference(*fact, before, after, [])).of.append(name)
    for what, side in [fact for fact in seen if fact[1] == "torch"]:
        of_torch, of_paddle = seen[what, side], seen.get((what, "paddle"))
        if of_paddle and of_torch == of_paddle._replace(side=side):
            seen[what, side] = of_torch._replace(side="both")
            del seen[what, "paddle"]
    return list(seen.values())
