"""What is said of two results that were compared: the sentence at the end, and what lines are of.

The terminal, the page and --json say what stands here.
"""

from collections.abc import Iterator

from twincheck.common.report.sentences import number
from twincheck.common.verdict.row import AGREEING, Row, count
from twincheck.extras.compared import Kind
from twincheck.extras.compared import compare as c
from twincheck.extras.compared.compare import Cause, Change, Compared

# What became of rows -> what is said of the first that are told, and of others.
_SAID = {
    "fails now": (Kind.ROWS_FAIL_NOW, Kind.MORE_FAIL_NOW),
    "new, fails": (Kind.ROWS_NEW_FAIL, Kind.MORE_NEW_FAIL),
    "worse": (Kind.ROWS_WORSE, Kind.MORE_WORSE),
    c.STILL: (Kind.ROWS_FAIL_STILL, Kind.MORE_FAIL_STILL),
    "agrees now": (Kind.ROWS_AGREE_NOW, Kind.MORE_AGREE_NOW),
    "better": (Kind.ROWS_BETTER, Kind.MORE_BETTER),
    c.GONE: (Kind.ROWS_GONE, Kind.MORE_GONE),
    c.NEW: (Kind.ROWS_NEW, Kind.MORE_NEW),
    c.SAME: (Kind.ROWS_AGREE_STILL, Kind.MORE_AGREE_STILL),
}
# The heading of a section of rows, in the order of the page.
HEADINGS = {
    "fails now": Kind.SECTION_FAIL_NOW(),
    "new, fails": Kind.SECTION_NEW_FAIL(),
    "worse": Kind.SECTION_WORSE(),
    c.STILL: Kind.SECTION_FAIL_STILL(),
    "agrees now": Kind.SECTION_AGREE_NOW(),
    "better": Kind.SECTION_BETTER(),
    c.GONE: Kind.SECTION_GONE(),
    c.NEW: Kind.SECTION_NEW(),
}
_ALONE = (Kind.IN_FIRST_ALONE(), Kind.IN_SECOND_ALONE())  # of a result that one of both has
_OF_A_CAUSE = {
    c.FOUND_NOW: Kind.FOUND_NOW(),
    c.OTHERWISE: Kind.FOUND_OTHERWISE(),
    c.AS_BEFORE: Kind.FOUND_AS_BEFORE(),
    c.FOUND_NO_MORE: Kind.FOUND_NO_MORE(),
}


def sentence(found: Compared) -> str:
    """`3 rows failed before and agree now, 1 agrees no more …`: what got worse comes first."""
    counts = {what: n for what in c.CHANGES if (n := len(found.of(what)))}
    parts = {what: _SAID[what][at > 0](count=counts[what]) for at, what in enumerate(counts)}
    by = [_by_how_much(change) for change in found.of(c.STILL)]
    ways = {"more": Kind.BY_MORE, "less": Kind.BY_LESS}
    if told := [kind(count=by.count(way)) for way, kind in ways.items() if way in by]:
        parts[c.STILL] = Kind.ROWS_BY_HOW_MUCH(rows=parts[c.STILL], ways=told)
    lost, noisy = len(found.guide_lost), len(found.noisy)
    more = [Kind.RESULTS_FAIL_GUIDE(count=lost)] if lost else []
    more += [Kind.ROWS_OF_OTHER_NOISE(count=noisy)] if noisy else []
    said = Kind.TOLD_IN_TURN(parts=list(parts.values()))
    return Kind.TOLD_APART(parts=[said, *more, *_in_one(found)])


def _in_one(found: Compared) -> Iterator[str]:
    """`step 4 is in the first alone`; of many how many there are."""
    for told, where in zip((found.old, found.new), _ALONE, strict=True):
        names = [c.titled(name, len(found.models) > 1) for name in found.alone(told)]
        if len(names) > 4:
            yield Kind.RESULTS_ALONE(count=len(names), where=where)
        elif len(names) > 1:
            yield Kind.STEPS_ALONE(before=names[:-1], last=names[-1], where=where)
        elif names:
            yield Kind.STEP_ALONE(step=names[0], where=where)


def headline(found: Compared) -> str:
    """The page's first words."""
    if found.worse:
        return Kind.GOT_WORSE(count=len(found.worse))
    still, better = len(found.of(c.STILL)), len(found.of(*c.BETTER))
    otherwise = found.noisy or found.guide_lost or any(map(_by_how_much, found.of(c.STILL)))
    otherwise = otherwise or found.old.found.keys() != found.new.found.keys()
    if len(found.of(c.SAME)) + still == len(found.changes) and not otherwise:
        told = Kind.CHANGED_NOTHING()
    elif better:
        told = Kind.GOT_BETTER(count=better)
    else:
        told = Kind.WORSE_NO_VERDICT() if still or found.guide_lost else Kind.WORSE_NOTHING()
    rows = Kind.ROWS_FAIL_STILL(count=still)
    return Kind.CHANGED_AND_STILL(changed=told, still=rows) if still else told


def unchanged(found: Compared) -> str:
    """A line on all rows that agree as before: how many, with which verdicts."""
    same = found.of(c.SAME)
    if not same:
        return Kind.UNCHANGED_NONE()
    counts = count([change.after.verdict for change in same])
    verdicts = [Kind.COUNT_OF_VERDICT(count=n, verdict=verdict) for verdict, n in counts.items()]
    bits = sum(change.before.verdict != change.after.verdict for change in same)
    told = Kind.UNCHANGED(count=len(same), verdicts=verdicts)
    return Kind.UNCHANGED_BUT_BITS(unchanged=told, count=bits) if bits else told


def of_limit(row: Row | None) -> str:
    """`3.1e-05 / 7.2e-12`: the float64 gap, and what is allowed of it."""
    if row is None:
        return "–"
    if row.gap is None and row.allowed is None:
        return "–" if row.verdict not in AGREEING else "0"
    return f"{number(row.gap or 0.0)} / {number(row.allowed)}"


def verdicts(change: Change) -> str:
    """`ROUNDING → DIVERGED`."""
    was, now = (row.verdict if row else "–" for row in (change.before, change.after))
    return was if was == now else f"{was} → {now}"


def remarks(change: Change) -> list[str]:
    """What else is to be said of a row."""
    starts = Kind.STARTS_NOW if change.starts == "here now" else Kind.STARTS_NO_MORE
    found = [starts()] if change.starts else []
    if by := _by_how_much(change):
        off = Kind.OFF_BY_MORE if by == "more" else Kind.OFF_BY_LESS
        found.append(off(factor=change.grew if by == "more" else 1 / change.grew))
    row = change.after or change.before
    if row.origin and not change.starts and change.what != c.STILL:
        found.append(Kind.STARTS_HERE() if change.after else Kind.STARTED_HERE())
    return found


def _by_how_much(change: Change) -> str:
    """Of a row that fails as before, "more" or "less" where that is by more than FACTOR."""
    if change.what != c.STILL or change.grew is None:
        return ""
    return "more" if change.grew > c.FACTOR else "less" if change.grew < 1 / c.FACTOR else ""


def noise(change: Change) -> str:
    """`Paddle's noise 3.0e-08 → 9.1e-07, 30 times`."""
    one = change.noise
    numbers = {"before": number(one.before), "after": number(one.after), "factor": one.factor}
    return Kind.NOISE_DIFFERS(what=one.what, **numbers)


def cause(one: Cause) -> str:
    """A cause in a sentence, and what it was before where that is another."""
    finding = one.after or one.before
    key = finding.headline.fields["key"]
    said = Kind.CAUSE(found=_OF_A_CAUSE[one.what], cause=finding.sentence, key=key)
    if one.what != c.OTHERWISE:
        return said
    was = {"cause": one.before.sentence, "verdict": one.before.row.verdict}
    return Kind.CAUSE_OTHERWISE(now=said, **was)


def worst_first(found: Compared) -> list[c.Name]:
    """The results, those in which most got worse first, and those that fail before others."""

    def badness(name: c.Name) -> tuple:
        now = found.new.found.get(name)
        failing = now is not None and now.exit_code != 0
        counts = (len(found.of(*whats, name=name)) for whats in (c.WORSE, (c.STILL,)))
        return (*(-n for n in counts), not failing, found.names.index(name))

    return sorted(found.names, key=badness)


def tone_of(found: Compared, name: c.Name) -> str:
    """A result's tone: bad where something in it got worse or fails."""
    now = found.new.found.get(name)
    if now is None:
        return "quiet"
    if found.of(*c.WORSE, name=name) or now.exit_code:
        return "bad"
    return "mind" if found.of(c.GONE, name=name) or name in found.guide_lost else "good"


def in_short(found: Compared, name: c.Name) -> str:
    """`1 worse, 3 better`, of a result's rows; empty where all are as before."""
    groups = {
        c.WORSE: Kind.COUNT_WORSE,
        (c.STILL,): Kind.COUNT_FAIL_STILL,
        c.BETTER: Kind.COUNT_BETTER,
        (c.GONE,): Kind.COUNT_GONE,
        (c.NEW,): Kind.COUNT_NEW,
    }
    for told, where in zip((found.old, found.new), _ALONE, strict=True):
        if name in found.alone(told):
            failing = len(found.of(*c.WORSE, name=name))
            return Kind.ALONE_AND_FAIL(where=where, count=failing) if failing else where
    counts = ((kind, len(found.of(*whats, name=name))) for whats, kind in groups.items())
    parts = [kind(count=n) for kind, n in counts if n]
    return Kind.TOLD_IN_TURN(parts=parts) if parts else Kind.AS_BEFORE()
