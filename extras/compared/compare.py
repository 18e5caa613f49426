"""What one result has otherwise than another: its rows, and where what is wrong starts.

Verdicts decide what got worse, as they decide everywhere; numbers say by how much.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twincheck.common.report.findings import Finding, findings_of
from twincheck.common.system.errors import UserError
from twincheck.common.verdict.row import AGREEING, FAILING, SEVERITY, Row, share
from twincheck.extras.compared import Kind
from twincheck.extras.compared.read import Found, Name, Told

# What became of a row, the worst first.
WORSE = ("fails now", "new, fails", "worse")
STILL = "fails as before"
BETTER = ("agrees now", "better")
NEW, GONE, SAME = "new", "gone", "as before"
CHANGES = (*WORSE, STILL, *BETTER, GONE, NEW, SAME)

FACTOR = 2.0  # what differs by no more is the same
# What a result says of a row's noise: how that is called, and by how much it is the same.  Of rows
# that agree result.json keeps the last two alone, which come of the first two; the very last is one
# draw of few values where a tensor has few.
_NOISES = {
    "noise_ref": (Kind.NOISE_OF_TORCH(), FACTOR),
    "noise_cand": (Kind.NOISE_OF_PADDLE(), FACTOR),
    "allowed": (Kind.NOISE_ALLOWS(), FACTOR),
    "mean_abs": (Kind.MEAN_DIFFERENCE(), 2 * FACTOR),
}
FOUND_NOW, OTHERWISE, AS_BEFORE, FOUND_NO_MORE = "now", "otherwise", "as before", "no more"


@dataclass(frozen=True)
class Noise:
    """One measure of a row's noise, which differs."""

    what: str
    before: float
    after: float

    @property
    def factor(self) -> float:
        """By how much, whichever way."""
        return max(self.before / self.after, self.after / self.before)


@dataclass
class Change:
    """What became of one row."""

    name: Name
    what: str  # of CHANGES
    before: Row | None
    after: Row | None
    noise: Noise | None = None  # the measure that differs most
    starts: str = ""  # "here now", "here no more": of a row that fails as before

    @property
    def key(self) -> str:
        """The row's."""
        return (self.after or self.before).key

    @property
    def grew(self) -> float | None:
        """By what factor the part of what is allowed that it uses grew; None where not known."""
        shares = [share(row) if row else None for row in (self.before, self.after)]
        return shares[1] / shares[0] if all(shares) else None


@dataclass(frozen=True)
class Cause:
    """What became of one cause of a red result."""

    name: Name
    what: str  # FOUND_NOW, OTHERWISE, AS_BEFORE or FOUND_NO_MORE
    before: Finding | None
    after: Finding | None

    @property
    def key(self) -> str:
        """The row that shows it."""
        return (self.after or self.before).row.key


@dataclass
class Compared:
    """All that two results have otherwise."""

    old: Told
    new: Told
    names: list[Name]  # of the results that either has
    changes: list[Change] = field(default_factory=list)  # a row each, the worst first
    causes: list[Cause] = field(default_factory=list)  # those that are found now first

    @property
    def models(self) -> list[str]:
        """The pairs that either is of."""
        return list(dict.fromkeys(model for _, _, model in self.names))

    def of(self, *whats: str, name: Name | None = None) -> list[Change]:
        """The rows of which that became, of one result or of all."""
        return [c for c in self.changes if c.what in whats and name in (None, c.name)]

    @property
    def worse(self) -> list[Change]:
        """The rows that got worse."""
        return self.of(*WORSE)

    @property
    def noisy(self) -> list[Change]:
        """The rows whose noise differs, and that most first."""
        noisy = (change for change in self.changes if change.noise)
        return sorted(noisy, key=lambda change: -change.noise.factor)

    @property
    def tone(self) -> str:
        """Of the result, as the page's style has it: good where nothing is to be looked at."""
        if self.worse:
            return "bad"
        lost = self.of(STILL, GONE) or self.guide_lost or self.alone(self.old)
        return "mind" if lost or any(one.exit_code for one in self.new.found.values()) else "good"

    def alone(self, told: Told) -> list[Name]:
        """The results that this one of both has alone."""
        both = self.old.found.keys() & self.new.found.keys()
        return [name for name in self.names if name in told.found and name not in both]

    @property
    def guide_lost(self) -> list[Name]:
        """The results that passed the guide's rule, and do no more."""
        both = self.old.found.keys() & self.new.found.keys()
        passed = {n: (self.old.found[n].guide_passed, self.new.found[n].guide_passed) for n in both}
        return sorted(name for name, was_and_is in passed.items() if was_and_is == (True, False))

    @property
    def exit_code(self) -> int:
        """0 where nothing got worse, 1 where something did."""
        return 1 if self.worse else 0


def compare(old: Told, new: Told) -> Compared:
    """Compare two results; raises UserError where they have no step of a pair in common."""
    both = {"old": str(old.path), "new": str(new.path)}
    if not set(old.models) & set(new.models):
        raise UserError(Kind.MODELS_APART(**both, olds=old.models, news=new.models))
    if not old.found.keys() & new.found.keys():
        steps = [sorted({titled(name) for name in told.found}) for told in (old, new)]
        raise UserError(Kind.STEPS_APART(**both, olds=steps[0], news=steps[1]))
    found = Compared(old, new, sorted({**old.found, **new.found}, key=lambda n: (n[2], n[:2])))
    for name in found.names:
        before, after = old.found.get(name), new.found.get(name)
        found.changes += _changes(name, before, after)
        found.causes += _causes(name, before, after)
    first = {(cause.name, cause.key): at for at, cause in enumerate(found.causes)}
    last = len(first)
    found.changes.sort(key=lambda one: _badness(one, first.get((one.name, one.key), last)))
    whats = (FOUND_NOW, OTHERWISE, AS_BEFORE, FOUND_NO_MORE)
    found.causes.sort(key=lambda cause: whats.index(cause.what))
    return found


def titled(name: Name, more_models: bool = False) -> str:
    """`step 4 parallel`, and of which model where there are several."""
    return Kind.STEP(name=named(name, more_models))


def named(name: Name, more_models: bool = False) -> str:
    """The same without the first word."""
    step, other, model = name
    return " ".join(filter(None, (str(step), other, model if more_models else "")))


def fails(row: Row, allow: Sequence[str]) -> bool:
    """True for a row that makes its result red."""
    return row.verdict in FAILING and row.verdict not in allow


# ---- rows ---------------------------------------------------------------------------------------


def _changes(name: Name, before: Found | None, after: Found | None) -> Iterable[Change]:
    """Of each row; of a result that one alone has, which is told as a whole, of those that fail."""
    rows = [_by_place(found.rows if found else ()) for found in (before, after)]
    for place in dict.fromkeys((*rows[1], *rows[0])):
        was, now = rows[0].get(place), rows[1].get(place)
        failed, failing = was and fails(was, before.allow), now and fails(now, after.allow)
        change = Change(name, _what(was, now, failed, failing), was, now)
        if not (failing or (before and after)):
            continue
        if was and now and was.verdict == now.verdict:
            change.noise = _noise(was, now)
            if was.origin != now.origin and (failed or failing):
                change.starts = "here now" if now.origin else "here no more"
        yield change


def _by_place(rows: Iterable[Row]) -> dict[tuple[str, int], Row]:
    """Rows by their keys; where several logs have a key, in the order of these logs too."""
    seen: Counter[str] = Counter()
    found = {}
    for row in rows:
        found[row.key, seen[row.key]] = row
        seen[row.key] += 1
    return found


def _what(was: Row | None, now: Row | None, failed: object, failing: object) -> str:
    if now is None:
        return GONE
    if was is None:
        return WORSE[1] if failing else NEW
    if bool(failed) != bool(failing):
        return WORSE[0] if failing else BETTER[0]
    further = rank(now.verdict) - rank(was.verdict)
    if further:
        return WORSE[2] if further > 0 else BETTER[1]
    return STILL if failing else SAME


def rank(verdict: str) -> int:
    """A verdict's place from harmless to worst; the two that say nothing of a row share one."""
    return 0 if verdict in AGREEING else SEVERITY.index(verdict)


def _noise(was: Row, now: Row) -> Noise | None:
    """The measure of noise that differs most, of those that are not the same."""
    of = [
        (row.measure, row.sample) for row in (was, now) if row.measure
    ]  # what their numbers are of
    if len(set(of)) > 1 or any(measure == "claim" for measure, _ in of):
        return None
    pairs = {name: (getattr(was, name), getattr(now, name)) for name in _NOISES}
    known = {name: pair for name, pair in pairs.items() if all(pair)}
    own = [name for name in ("noise_ref", "noise_cand") if name in known]
    names = own if len(own) == 2 else [name for name in _NOISES if name in known]
    found = [(Noise(_NOISES[name][0], *known[name]), _NOISES[name][1]) for name in names]
    found = [one for one, same in found if one.factor > same]
    return max(found, key=lambda one: one.factor, default=None)


def _badness(change: Change, cause: int) -> tuple:
    """By which the worst rows come first: what became of them, where it starts, the verdict.

    cause  the place of the cause that it shows
    """
    was = change.what in (*BETTER, GONE)
    row = change.before if was else change.after
    used = share(row) or 0.0
    used = used if math.isfinite(used) else math.inf
    return CHANGES.index(change.what), cause, not row.origin, -rank(row.verdict), -used


# ---- where it starts ----------------------------------------------------------------------------


def _causes(name: Name, before: Found | None, after: Found | None) -> Iterable[Cause]:
    """What became of each cause: one is known by the rows that show it."""
    old, new = (findings_of(found) if found else [] for found in (before, after))
    left = _by_keys(old)
    seen: set[int] = set()
    for finding in new:
        keys = (finding.row.key, *finding.further)
        was = next((left[key] for key in keys if key in left), None)
        if was is None:
            yield Cause(name, FOUND_NOW, None, finding)
            continue
        seen.add(id(was))
        same = (was.sentence, was.row.verdict) == (finding.sentence, finding.row.verdict)
        yield Cause(name, AS_BEFORE if same else OTHERWISE, was, finding)
    yield from (Cause(name, FOUND_NO_MORE, was, None) for was in old if id(was) not in seen)


def _by_keys(findings: Iterable[Finding]) -> Mapping[str, Finding]:
    return {key: one for one in findings for key in (one.row.key, *one.further)}
