"""Every row of a report as one value for JSON: a column for each thing that is said of a row.

Tens of thousands of rows are shown by the page's own script (page/page.js).  The page holds them
packed by gzip, to which columns and keys that are alike are no burden.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from twincheck.common.report.findings import place_of
from twincheck.common.report.html_words import Texts, Words, visible
from twincheck.common.report.sentences import decided_text, digits, is_output
from twincheck.common.report.source_lines import SourceLine, source_context
from twincheck.common.report.terminal import describe, origins_first
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind, is_of
from twincheck.common.verdict.row import AGREEING, FAILING, SEVERITY, Row

NUMBERS = ("mean_abs", "max_abs", "noise_ref", "noise_cand", "gap", "scale", "allowed")

MOST_ROWS = 60_000  # in one page; further ones that agree are left out
MOST_DESCRIBED = 1_500  # rows that do not agree and have their sentences in the page
_FLAGS = ("origin", "inside", "noise_only", "capped", "guide_passed")


def reasons_of(row: Row) -> str:
    """A row's reasons as one; empty for none."""
    if len(row.reasons) == 1:
        return row.reasons[0]
    return Kind.TEXT(text=list(row.reasons)) if row.reasons else ""


def plain_number(value: float | None, digits: int = 3) -> float | int | None:
    """A number for JSON, which has no word for infinity: that is what no float holds.

    None where it is undefined.
    """
    if value is None or math.isnan(value):
        return None
    return 10**309 if math.isinf(value) else float(f"{value:.{digits}g}")


class PackedRows:
    """The rows of several results as one value for JSON."""

    def __init__(self, words: Words):
        self.results: list[dict[str, object]] = []
        self.texts = Texts(words)
        self._described = 0

    def add(
        self, name: str, title: str, result, shown: Sequence[int], look: str, choices: set[str]
    ) -> None:
        """Add a result's rows, with the numbers of the texts that they say.

        name     what a link to a row begins with: step1/fastformer
        shown    the indices of the rows that are packed, in the log's order
        look     the command that shows one of its tensors, which KEY stands for
        choices  the keys of the discrete choices
        """
        kept = [result.rows[i] for i in shown]
        places = {side: result.places.get(side, {}) for side in SIDES}
        places = {side: [self._place(own, row) for row in kept] for side, own in places.items()}
        number = self.texts.number
        self.results.append(
            {
                "name": name,
                "title": number(title),
                "look": look,
                "count": len(kept),
                "order": None if len(kept) == len(result.rows) else shown,
                "verdicts": [row.verdict for row in kept],
                "keys": [visible(row.key) for row in kept],
                "notes": [number(reasons_of(row)) for row in kept],
                "shapes": [" × ".join(map(str, row.shape)) for row in kept],
                "flags": {
                    name: [v if v is None else bool(v) for v in (getattr(r, name) for r in kept)]
                    for name in _FLAGS
                },
                "numbers": {
                    name: [plain_number(getattr(row, name)) for row in kept] for name in NUMBERS
                },
                "places": places,
                "described": self._describe(kept),
                "decided": [number(decided_text(row)) for row in kept],
                "digits": {
                    i: number(digits(row))
                    for i, row in enumerate(kept)
                    if is_output(row, result.cases)
                },
                "choices": [i for i, row in enumerate(kept) if row.key in choices],
                "claims": [i for i, row in enumerate(kept) if row.measure == "claim"],
            }
        )

    def _place(self, places: Mapping[str, str], row: Row) -> str:
        """`file:line`, with a mark behind it where it only uses the module of a parameter."""
        if row.measure == "claim":
            return ""
        place = place_of(places, row.key)
        if is_of(place, Kind.WHERE_USED):
            return f"{visible(place.fields['line'])}*"
        return visible(place) if ":" in place else ""

    def _describe(self, rows: Sequence[Row]) -> dict[str, list[int]]:
        """The sentences on rows that do not agree, origins first, while there is room for them."""
        off = [i for i, row in enumerate(rows) if row.verdict not in AGREEING]
        off.sort(key=lambda i: (not rows[i].origin, -SEVERITY.index(rows[i].verdict)))
        off = off[: max(0, MOST_DESCRIBED - self._described)]
        self._described += len(off)
        return {str(i): list(map(self.texts.number, describe(rows[i]))) for i in off}

    def as_json(self) -> dict[str, object]:
        """Tables and columns, and the lines of source that the places name."""
        return {
            "severity": SEVERITY,
            "agreeing": AGREEING,
            "failing": FAILING,
            "sources": source_lines(
                place
                for one in self.results
                for side in SIDES
                for place in (*one["places"][side], *one.get("tree", one)["places"][side])
            ),
            "results": self.results,
            "texts": self.texts.table,
        }


def source_lines(places: Iterable[str]) -> dict[str, dict[str, str]]:
    """File -> number -> text of every line that stands at a place or around it."""
    found: dict[str, dict[str, str]] = {}
    for place in dict.fromkeys(places):
        lines: tuple[SourceLine, ...] = source_context(place.removesuffix("*"))
        if lines:
            file = found.setdefault(place.rpartition(":")[0], {})
            file.update((str(line.number), visible(line.text.expandtabs())) for line in lines)
    return found


def rows_shown(results: Sequence) -> list[list[int]]:
    """Of each result the rows that the page holds: all, where they are not too many.

    Then all that do not agree, and of the others those that used most of what was allowed.
    """
    total = sum(len(result.rows) for result in results)
    if total <= MOST_ROWS:
        return [list(range(len(result.rows))) for result in results]

    every = [(r, i, row) for r, one in enumerate(results) for i, row in enumerate(one.rows)]
    ranked = [(origins_first(row), r, i) for r, i, row in every]
    ranked.sort(reverse=True)
    shown: list[list[int]] = [[] for _ in results]
    for _, r, i in sorted(ranked[:MOST_ROWS], key=lambda entry: entry[1:]):
        shown[r].append(i)
    return shown
