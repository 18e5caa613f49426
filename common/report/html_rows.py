"""Every row of a report, packed for a page: columns of a few characters, and tables of strings.

Tens of thousands of rows are shown by the page's own script, which unpacks them (page/page.js):
a number is three characters, a key two indices into tables whose strings leave out what they have
in common with the one before.
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from common.report.sentences import PLAIN, decided_text, digits, is_output
from common.report.source_lines import SourceLine, source_context
from common.report.terminal import describe, place_of
from common.system.frameworks import SIDES
from common.verdict.row import AGREEING, FAILING, SEVERITY, Row, share

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_CODES = np.frombuffer(ALPHABET.encode(), np.uint8)
INDEX_WIDTH = 3  # characters of an index into a table, and of a number
# Numbers: 0 undefined, 1 zero, 2 infinite, then three digits for each power of ten.
_FIRST, _LOWEST, _HIGHEST = 3, -99, 90
NUMBERS = ("mean_abs", "max_abs", "noise_ref", "noise_cand", "gap", "scale", "allowed")

MOST_ROWS = 60_000  # in one page; further ones that agree are left out
MOST_DESCRIBED = 1_500  # rows that do not agree and have their sentences in the page
MOST_CHARACTERS = 2_000  # of a note
_FLAGS = ("origin", "inside", "noise_only", "capped", "guide_passed")

# Where a key is cut into two, each of which is also in other keys.
_CUT = re.compile(r"(?P<head>.*/)?(?P<tail>[^/]*(?:/\d[^/]*)*)", re.DOTALL)


def visible(text: str) -> str:
    """Anybody's text with what cannot be seen, or turns the direction of a line, spelled out."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _spelled(letter) for letter in text)


def _spelled(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


class Strings:
    """A table of strings, each once: its index stands for it in a column."""

    def __init__(self):
        self.indices: dict[str, int] = {"": 0}

    def index(self, text: str) -> int:
        """Where a text is in the table, from now on."""
        return self.indices.setdefault(text, len(self.indices))

    def packed(self) -> list[str]:
        """Each string without what it begins with as the one before, and how much that is."""
        packed, before = [], ""
        for text in self.indices:
            most = min(len(ALPHABET) - 1, len(before), len(text))
            same = next((i for i in range(most) if before[i] != text[i]), most)
            packed.append(ALPHABET[same] + text[same:])
            before = text
        return packed


def pack_numbers(values: Sequence[float | None]) -> str:
    """Three characters a number: its first three digits and its power of ten."""
    numbers = np.abs(np.array([math.nan if v is None else v for v in values], np.float64))
    codes = np.zeros(numbers.size, np.int64)
    codes[numbers == 0] = 1
    codes[np.isinf(numbers)] = 2
    plain = np.isfinite(numbers) & (numbers > 0)
    powers = np.floor(np.log10(numbers[plain]))
    powers = np.clip(powers, _LOWEST, _HIGHEST)
    digits = np.rint(np.clip(numbers[plain] / 10.0 ** (powers - 2), 100, 1000)).astype(np.int64)
    powers = powers.astype(np.int64) + (digits >= 1000)
    digits = np.where(digits >= 1000, 100, digits)
    codes[plain] = _FIRST + (np.minimum(powers, _HIGHEST) - _LOWEST) * 900 + digits - 100
    return pack_indices(codes)


def pack_indices(indices: Sequence[int], width: int = INDEX_WIDTH) -> str:
    """So many characters for each whole number, the highest first."""
    codes = np.asarray(indices, np.int64)
    parts = [_CODES[(codes >> (6 * place)) & 63] for place in reversed(range(width))]
    return np.stack(parts, axis=-1).tobytes().decode() if codes.size else ""


class PackedRows:
    """The rows of several results as one value for JSON."""

    def __init__(self):
        self.heads, self.tails, self.notes = Strings(), Strings(), Strings()
        self.places, self.shapes, self.decided = Strings(), Strings(), Strings()
        self.results: list[dict[str, object]] = []
        self._described = 0

    def add(
        self, name: str, title: str, result, shown: Sequence[int], look: str, choices: set[str]
    ) -> None:
        """Pack a result's rows.

        name     what a link to a row begins with: step1/fastformer
        shown    the indices of the rows that are packed, in the log's order
        look     the command that shows one of its tensors, which KEY stands for
        choices  the keys of the discrete choices
        """
        rows = result.rows
        columns: dict[str, list[int]] = {c: [] for c in ("heads", "tails", "notes", "shapes")}
        places: dict[str, list[int]] = {side: [] for side in SIDES}
        for i in shown:
            row = rows[i]
            parts = _CUT.fullmatch(visible(row.key))
            columns["heads"].append(self.heads.index(parts["head"] or ""))
            columns["tails"].append(self.tails.index(parts["tail"]))
            columns["notes"].append(self.notes.index(visible(row.note[:MOST_CHARACTERS])))
            columns["shapes"].append(self.shapes.index(" × ".join(map(str, row.shape))))
            for side in SIDES:
                place = self._place(result.places.get(side, {}), row)
                places[side].append(self.places.index(place))
        kept = [rows[i] for i in shown]
        texts = enumerate(map(decided_text, kept))
        self.results.append(
            {
                "name": name,
                "title": title,
                "look": look,
                "count": len(kept),
                "left": len(rows) - len(kept),
                "cases": [visible(case) for case in result.cases],
                "order": None if len(kept) == len(rows) else pack_indices(shown),
                "verdicts": pack_indices([SEVERITY.index(row.verdict) for row in kept], 1),
                "flags": pack_indices([_flags(row) for row in kept], 1),
                "numbers": {
                    name: pack_numbers([getattr(row, name) for row in kept]) for name in NUMBERS
                },
                "columns": {name: pack_indices(values) for name, values in columns.items()},
                "places": {side: pack_indices(values) for side, values in places.items()},
                "described": self._describe(kept),
                "decided": {i: self.decided.index(t) for i, t in texts if t != PLAIN},
                "digits": {i: digits(r) for i, r in enumerate(kept) if is_output(r, result.cases)},
                "choices": [i for i, row in enumerate(kept) if row.key in choices],
                "claims": [i for i, row in enumerate(kept) if row.measure == "claim"],
            }
        )

    def _place(self, places: Mapping[str, str], row: Row) -> str:
        """`file:line`, with a mark behind it where it only uses the module of a parameter."""
        if row.measure == "claim":
            return ""
        place = visible(place_of(places, row.key))
        if place.endswith(" is used)"):
            return f"{place.partition(' (where ')[0]}*"
        return place if ":" in place else ""

    def _describe(self, rows: Sequence[Row]) -> dict[str, list[str]]:
        """The sentences on rows that do not agree, origins first, while there is room for them."""
        off = [i for i, row in enumerate(rows) if row.verdict not in AGREEING]
        off.sort(key=lambda i: (not rows[i].origin, -SEVERITY.index(rows[i].verdict)))
        off = off[: max(0, MOST_DESCRIBED - self._described)]
        self._described += len(off)
        return {
            str(i): [visible(line[:MOST_CHARACTERS]) for line in describe(rows[i])] for i in off
        }

    def as_json(self) -> dict[str, object]:
        """Tables and columns, and the lines of source that the places name."""
        return {
            "severity": SEVERITY,
            "agreeing": AGREEING,
            "failing": [pack_indices([SEVERITY.index(verdict)], 1) for verdict in FAILING],
            "heads": self.heads.packed(),
            "tails": self.tails.packed(),
            "notes": self.notes.packed(),
            "decided": self.decided.packed(),
            "plain": PLAIN,
            "shapes": self.shapes.packed(),
            "places": self.places.packed(),
            "sources": source_lines(self.places.indices),
            "results": self.results,
        }


def _flags(row: Row) -> int:
    return sum(bool(getattr(row, name)) << i for i, name in enumerate(_FLAGS)) + (
        (row.guide_passed is not None) << len(_FLAGS)
    )


def source_lines(places: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """File -> number -> text of every line that stands at a place or around it."""
    found: dict[str, dict[str, str]] = {}
    for place in places:
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

    def badness(row: Row) -> tuple[bool, int, float]:
        return row.origin, SEVERITY.index(row.verdict), share(row) or 0.0

    every = [(r, i, row) for r, one in enumerate(results) for i, row in enumerate(one.rows)]
    ranked = [(badness(row), r, i) for r, i, row in every]
    ranked.sort(reverse=True)
    shown: list[list[int]] = [[] for _ in results]
    for _, r, i in sorted(ranked[:MOST_ROWS], key=lambda entry: entry[1:]):
        shown[r].append(i)
    return shown
