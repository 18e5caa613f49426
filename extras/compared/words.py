"""What is said of two results that were compared: the sentence at the end, and what lines are of.

The terminal, the page and --json say what stands here.
"""

from collections.abc import Iterable, Sequence

from twincheck.common.report.sentences import listed, number
from twincheck.common.system.words import number_of
from twincheck.common.verdict.row import AGREEING, Row, count
from twincheck.extras.compared import compare as c
from twincheck.extras.compared.compare import Cause, Change, Compared

# What became of rows -> what is said of one, and of several.
_SAID = {
    "fails now": ("agrees no more", "agree no more"),
    "new, fails": ("is new and fails", "are new and fail"),
    "worse": ("has a worse verdict", "have a worse verdict"),
    c.STILL: ("fails as before", "fail as before"),
    "agrees now": ("failed before and agrees now", "failed before and agree now"),
    "better": ("has a better verdict", "have a better verdict"),
    c.GONE: ("is gone", "are gone"),
    c.NEW: ("is new", "are new"),
    c.SAME: ("agrees as before", "agree as before"),
}
# The heading of a section of rows, in the order of the page.
HEADINGS = {
    "fails now": "Agreed before and fail now",
    "new, fails": "New rows that fail",
    "worse": "Have a worse verdict",
    c.STILL: "Fail as before",
    "agrees now": "Failed before and agree now",
    "better": "Have a better verdict",
    c.GONE: "Gone: in the first result alone",
    c.NEW: "New, and agree",
}
_ALONE = ("in the first alone", "in the second alone")  # of a result that one of both has
_OF_A_CAUSE = {
    c.FOUND_NOW: "found now",
    c.OTHERWISE: "found otherwise",
    c.AS_BEFORE: "found as before",
    c.FOUND_NO_MORE: "found no more",
}


def sentence(found: Compared) -> str:
    """`3 rows failed before and agree now, 1 agrees no more …`: what got worse comes first."""
    counts = [(what, len(found.of(what))) for what in c.CHANGES]
    counts = [(what, n) for what, n in counts if n]
    parts = {what: _counted(n, what, first=at == 0) for at, (what, n) in enumerate(counts)}
    by = [_by_how_much(change) for change in found.of(c.STILL)]
    by = [f"{by.count(way):,} by {way}" for way in ("more", "less") if way in by]
    if by:
        parts[c.STILL] += f" ({', '.join(by)})"
    said = ", ".join(parts.values())
    lost, noisy = len(found.guide_lost), len(found.noisy)
    fail = "result fails" if lost == 1 else "results fail"
    have = "row has other noise" if noisy == 1 else "rows have other noise"
    more = [f"{lost:,} {fail} the guide's rule now"] if lost else []
    more += [f"{noisy:,} {have}"] if noisy else []
    return "; ".join([said, *more, *_in_one(found)])


def _in_one(found: Compared) -> list[str]:
    """`step 4 is in the first alone`; of many how many there are."""
    said = []
    for told, alone in zip((found.old, found.new), _ALONE, strict=True):
        names = [c.titled(name, len(found.models) > 1) for name in found.alone(told)]
        if names:
            shown = listed(names) if len(names) <= 4 else f"{len(names)} results"
            said.append(f"{shown} {'is' if len(names) == 1 else 'are'} {alone}")
    return said


def _counted(n: int, what: str, first: bool) -> str:
    rows = " row" * first + "s" * (first and n > 1)
    return f"{n:,}{rows} {_SAID[what][n > 1]}"


def headline(found: Compared) -> str:
    """The page's first words."""
    if found.worse:
        return f"{number_of(len(found.worse), 'row')} got worse"
    still, better = len(found.of(c.STILL)), len(found.of(*c.BETTER))
    otherwise = found.noisy or found.guide_lost or any(map(_by_how_much, found.of(c.STILL)))
    otherwise = otherwise or found.old.found.keys() != found.new.found.keys()
    if len(found.of(c.SAME)) + still == len(found.changes) and not otherwise:
        word = "Nothing changed"
    elif better:
        word = f"{number_of(better, 'row')} got better"
    else:
        word = "No verdict got worse" if still or found.guide_lost else "Nothing got worse"
    return f"{word}, and {number_of(still, 'row')} {_SAID[c.STILL][still > 1]}" if still else word


def unchanged(found: Compared) -> str:
    """A line on all rows that agree as before: how many, with which verdicts."""
    same = found.of(c.SAME)
    if not same:
        return "no row agrees as before"
    counts = count([change.after.verdict for change in same])
    verdicts = ", ".join(f"{n:,} {verdict}" for verdict, n in counts.items())
    bits = sum(change.before.verdict != change.after.verdict for change in same)
    other = f"; {bits:,} of them between IDENTICAL and ROUNDING" if bits else ""
    return f"{number_of(len(same), 'row')} as before: {verdicts}{other}"


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
    found = [f"starts {change.starts}"] if change.starts else []
    if by := _by_how_much(change):
        factor = change.grew if by == "more" else 1 / change.grew
        found.append(f"off by {times(factor)} {'as much' if by == 'more' else 'less'}")
    row = change.after or change.before
    if row.origin and not change.starts and change.what != c.STILL:
        found.append("starts here" if change.after else "started here")
    return found


def _by_how_much(change: Change) -> str:
    """Of a row that fails as before, "more" or "less" where that is by more than FACTOR."""
    if change.what != c.STILL or change.grew is None:
        return ""
    return "more" if change.grew > c.FACTOR else "less" if change.grew < 1 / c.FACTOR else ""


def times(factor: float) -> str:
    """`3.1 times`, `2e+05 times`."""
    return f"{factor:.2g} times"


def noise(change: Change) -> str:
    """`Paddle's noise 3.0e-08 → 9.1e-07, 30 times`."""
    one = change.noise
    return f"{one.what} {number(one.before)} → {number(one.after)}, {times(one.factor)}"


def cause(one: Cause) -> str:
    """A cause in a sentence, and what it was before where that is another."""
    finding = one.after or one.before
    said = f"{_OF_A_CAUSE[one.what]}: {finding.headline.replace('; it starts at ', ', at ')}"
    if one.what == c.OTHERWISE:
        said += f" (before: {one.before.sentence}, {one.before.row.verdict})"
    return said


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
    groups: Iterable[tuple[Sequence[str], str]] = (
        (c.WORSE, "worse"),
        ((c.STILL,), "fail as before"),
        (c.BETTER, "better"),
        ((c.GONE,), "gone"),
        ((c.NEW,), "new"),
    )
    for told, alone in zip((found.old, found.new), _ALONE, strict=True):
        if name in found.alone(told):
            failing = len(found.of(*c.WORSE, name=name))
            return alone + (f", {failing:,} fail" if failing else "")
    counts = ((len(found.of(*whats, name=name)), word) for whats, word in groups)
    return ", ".join(f"{n:,} {word}" for n, word in counts if n) or "as before"
