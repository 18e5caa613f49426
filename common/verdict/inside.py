"""What a model is decides; what is inside it locates.

Outputs, losses, scores, gradients of parameters and inputs, optimizer steps, buffers and what a
model logs by name decide.  What a module was given and gave says where something starts; how a
model is built inside is its author's affair.  So where all that decides agrees, a value inside that
differs is INSIDE, and does not fail.  Before that it is looked for among the other side's values:
the same numbers may have another name, shape or order there.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.match import Values, likeness, masks_alike, same_elements
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.system.words import printable
from twincheck.common.verdict.comparisons import Comparisons
from twincheck.common.verdict.needs import Need
from twincheck.common.verdict.operators import Operators
from twincheck.common.verdict.row import (
    AGREEING,
    FAILING,
    HARMLESS,
    OF_OPERATORS,
    Row,
    exit_code,
)
from twincheck.common.verdict.tensor import judge_tensor

# Why a value is INSIDE.
MISSING, SHAPE, VALUES = Kind.INSIDE_MISSING, Kind.INSIDE_SHAPE, Kind.INSIDE_VALUES
TYPE, MASK, ORDER = Kind.INSIDE_TYPE, Kind.INSIDE_MASK, Kind.OTHER_ORDER


class Inside:
    """Settles the rows inside a model, once all rows are judged."""

    def __init__(self, comparisons: Comparisons, keys: Sequence[Key]):
        """`keys`: those of all rows, in their order."""
        # Only a run with exact operators can tell whether those explain what is off.
        self.needs: dict[str, Need] = {}
        self._rows = comparisons
        self._logs = logs = comparisons.logs
        self.keys = list(keys)
        self._runs = ("ref64", "cand64") if "ref64" in logs else ("ref32", "cand32")
        self._paired: set[str] = set()  # keys whose rows agree
        self._values: dict[tuple[str, bool], Values] = {}

    def settle(self, rows: list[Row]) -> list[str]:
        """Change the verdicts of rows inside that do not matter; returns what is to be said.

        Where something that decides is off, a value inside that differs may be its origin, and
        stays what it is; what is missing or shaped otherwise is only that, and INSIDE.
        """
        off = [i for i, row in enumerate(rows) if row.inside and is_off(row)]
        if exit_code(row.verdict for row in rows) == 0 or all(row.inside for row in rows):
            return []
        aligned = exit_code(row.verdict for row in rows if not row.inside) == 0
        self._paired = {row.key for row in rows if not is_off(row)}
        matched: dict[int, Row] = {}
        for i in off:
            if aligned or not self._lost(self.keys[i]):
                anywhere = aligned or rows[i].verdict == "INVALID"
                row = self._matched(self.keys[i], rows[i], anywhere)
                if row is not None:
                    rows[i] = matched[i] = row
        off = [i for i in off if i not in matched]
        reasons = {i: self._why(self.keys[i]) for i in off}
        # Where something starts, somewhere, at more than a mask's number, that is named first: -1e4
        # and -inf mask alike, unless a score is as large as the first.
        started = {
            self.keys[i].case
            for i, row in enumerate(rows)
            if row.origin and is_off(row) and reasons.get(i, VALUES) in (ORDER, VALUES)
        }
        for i, why in reasons.items():
            cut = self._lost(self.keys[i]) or self.keys[i].local == "p"  # or no dropout there
            lacking = rows[i].verdict == "INVALID" and why == MISSING and not cut
            unlike = rows[i].verdict == "INVALID" and why == SHAPE
            harmless = why == TYPE or why == MASK and self.keys[i].case in started
            harmless |= self._is_taken_right(i, rows)
            output = Key.parse(self.keys[i].output, self._logs.cases)
            # The same in float64 and less exact in float32: cast down, and not built otherwise.
            other = aligned and rows[i].verdict != "PRECISION"
            if other or lacking or harmless or unlike and not self._rearranged(i, rows):
                rows[i] = made_inside(rows[i], why)
            elif why == ORDER and self._why(output) == ORDER:
                rows[i].excuses = (ORDER,)  # so far: what is made of it has the same numbers too
        return _said(rows, list(matched.values()), aligned)

    def settle_carried(self, rows: list[Row], strict: bool) -> None:
        """Make CONSTANT what is CARRIED and comes of Paddle's inexact operators alone.

        For cases whose results are wrong in nothing but what they were fed.  A run that is fed
        nothing, and has those operators made exact, shows it: what agrees there is theirs.
        """
        operators, scales = Operators(self._logs), self._rows.scales
        off: dict[str, list[Row]] = {}
        seen: set[str] = set()  # cases in which such an operator may have a part
        for row, key in zip(rows, self.keys, strict=True):
            if is_off(row) and (strict or not row.inside):
                off.setdefault(key.case, []).append(row)
            near = row.verdict == "CARRIED"
            near = near and operators.could_be(row, key, scales.get(key.group, 0.0))
            if row.verdict == "CONSTANT" or near:
                seen.add(key.case)
        carried = {case for case, some in off.items() if all(r.verdict == "CARRIED" for r in some)}
        brought = carried & seen
        there = "free" in self._logs
        if brought and "teacher_forced" in self._logs and not there:
            self.needs = {"free": Need(off[min(brought)][0].key)}
        shown = {"excuses": (Kind.OPERATOR,), "proof": OF_OPERATORS}
        for i, (row, key) in enumerate(zip(rows, self.keys, strict=True)):
            if there and key.case in brought and row.verdict == "CARRIED":
                free = self._rows.row("free", key)
                if free is not None and free.verdict in AGREEING:
                    rows[i] = row.decided("CONSTANT", Kind.NOTHING_LEFT_FREE(), **shown)

    def _is_taken_right(self, i: int, rows: Sequence[Row]) -> bool:
        """Whether a module makes the reference's output of an input that it could not be fed.

        So its own means the same to it, such as a mask of what is seen and one of what is not.
        """
        key = self.keys[i]
        if not key.is_input or str(key) not in self._logs.not_forced:
            return False
        made = self._numbers.get(key.output)
        return made is not None and rows[made].verdict in (*HARMLESS, "CONSTANT", "CARRIED")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {str(key): number for number, key in enumerate(self.keys)}

    def _rearranged(self, i: int, rows: list[Row]) -> bool:
        """Judge a value as it is arranged on the other side; False where that cannot be told.

        Where its module was fed, what it makes then says whether it is an origin; else it is one
        where there is none before it.
        """
        key = self.keys[i]
        if self._logs.of_sums(key):
            return False  # sums of other neighbours
        ref, cand = (self._logs.get(name, key) for name in self._runs)
        alone = self._logs.get("teacher_forced", key) if self._logs.was_forced(key) else None
        plain = key.is_input and ref.dtype.kind in "iub"  # ids: no size says how far off
        alike = likeness(ref, cand, most=np.inf if plain else 0.5)
        if alike is None and alone is not None:
            alike = likeness(ref, alone, most=np.inf)
        if alike is None:
            return False

        def arranged(name: str) -> np.ndarray | None:
            array = self._logs.get(name, key)
            way = alike.own if name.startswith("ref") else alike.other
            return array if array is None else way(array)

        try:
            runs = [arranged(name) for name in ("ref32", "cand32", "ref64", "cand64")]
            row = self._told(judge_tensor(str(key), *runs), rows[i])
        except (ValueError, IndexError):  # the float32 run had other shapes
            return False
        if row.verdict == "INVALID":  # a mask of 0 and 1 against one of 0 and -inf
            return False
        row.add(Kind.SHAPED_OTHERWISE())
        if alone is not None:
            fed = judge_tensor(str(key), runs[0], runs[0], runs[2], arranged("teacher_forced"))
            row.origin = fed.verdict not in AGREEING
        else:
            before = zip(rows[:i], self.keys, strict=False)
            row.origin = not any(other.origin for other, k in before if k.case == key.case)
        rows[i] = row
        return True

    @staticmethod
    def _told(judged: Row, row: Row) -> Row:
        """A new verdict for a row, which keeps what else is known of it."""
        judged.step, judged.model, judged.inside = row.step, row.model, True
        judged.shape, judged.size = row.shape, row.size
        return judged

    def _lost(self, key: Key) -> bool:
        """True for a gradient that one side alone has of a value that both have: it is cut off."""
        has = all(key.value in self._logs[name] for name in self._runs)
        return key.kind == "grad_of" and has

    def _why(self, key: Key) -> Kind:
        """Why a value inside is off, as far as it is not the numbers themselves."""
        ref, cand = (self._logs.get(name, key) for name in self._runs)
        if ref is None or cand is None:
            return MISSING
        shapes = {self._logs.shape(name, key) for name in self._runs}
        if len(shapes) > 1 or ref.dtype.kind != cand.dtype.kind:
            return SHAPE
        if ref.dtype != cand.dtype and ref.dtype.kind in "iu" and np.array_equal(ref, cand):
            return TYPE
        if not self._logs.of_sums(key) and masks_alike(ref, cand):
            return MASK
        alone = self._logs.get("teacher_forced", key)
        turned = same_elements(ref, cand) or alone is not None and same_elements(ref, alone)
        return ORDER if turned else VALUES

    def _matched(self, key: Key, row: Row, anywhere: bool) -> Row | None:
        """The row of a value that the other side holds otherwise; None where it has none such.

        anywhere  else only at another call of the same module: calls may come in another order
        """
        ref_run, cand_run = self._runs
        on_torch = self._logs.get(ref_run, key) is not None
        sought, others = (ref_run, cand_run) if on_torch else (cand_run, ref_run)
        match = self._values_of(others, key).find(self._logs.get(sought, key), str(key))
        if match is None or (match.keys == (str(key),) and not match.how):
            return None
        calls = {replace(Key.parse(text, self._logs.cases), call="") for text in match.keys}
        if not anywhere and (match.how or calls != {replace(key, call="")}):
            return None
        arrays = []
        for precision in ("32", "64"):
            own = self._logs.get(sought[:-2] + precision, key)
            theirs = [self._logs.get(others[:-2] + precision, name) for name in match.keys]
            if own is None or any(array is None for array in theirs):
                arrays += [None, None]
                continue
            try:
                pair = [match.own(own), match.other(theirs)]
            except (ValueError, IndexError):  # the float32 run had other shapes
                return None
            arrays += pair if on_torch else pair[::-1]
        if arrays[0] is None:
            return None
        judged = judge_tensor(str(key), *arrays)
        if judged.verdict not in AGREEING:
            return None
        judged = self._told(judged, row)
        judged.excuses = (Kind.MATCHED, *judged.excuses)
        same = Kind.SAME_NUMBERS_IN_PADDLE if on_torch else Kind.SAME_NUMBERS_IN_TORCH
        elsewhere = match.keys != (str(key),)
        keys = Kind.IN_KEYS(keys=" and ".join(map(printable, match.keys))) if elsewhere else ""
        judged.add(same(where=keys, how=Kind.IN_BRACKETS(what=match.how) if match.how else ""))
        return judged

    def _values_of(self, run: str, key: Key) -> Values:
        """The values inside of a key's case and direction that one side has and no row pairs."""
        place = (run, key.case, key.is_gradient)
        if place not in self._values:
            log = self._logs[run]
            shown = (text for text in log if text not in self._logs.hidden)
            keys = (Key.parse(text, self._logs.cases) for text in shown)
            alike = (k for k in keys if (k.case, k.is_gradient) == place[1:])
            inside = (str(k) for k in alike if self._logs.is_inside(k))
            self._values[place] = Values(log, (k for k in inside if k not in self._paired))
        return self._values[place]


def is_off(row: Row) -> bool:
    return row.verdict in FAILING


def made_inside(row: Row, why: Kind) -> Row:
    """Return a row that passes as INSIDE; `why` is one of the kinds above."""
    because = Kind.INSIDE_BECAUSE(why=why(), notes=list(row.reasons)) if row.note else why()
    facts = {"excuses": (why,), "reasons": (because,), "origin": False}
    return row.decided("INSIDE", **facts)


def _said(rows: Sequence[Row], matched: Sequence[Row], aligned: bool) -> list[Reason]:
    """Return a note of the rows that are INSIDE, and one of those that were found elsewhere."""
    notes = []
    inside = [row for row in rows if row.verdict == "INSIDE"]
    if inside:
        kinds = Counter(row.excuse for row in inside)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        end = Kind.NAMES_NO_ORIGIN()
        shaped = next((row for row in inside if SHAPE in row.excuses), None)
        if shaped is not None:  # nothing of another shape can be fed, so that none is judged alone
            shapes = {"torch": shaped.shape, "paddle": shaped.other_shape}
            end = Kind.NAMES_NO_ORIGIN_BUT_SHAPE(key=printable(shaped.key), **shapes)
        if aligned:
            end = Kind.ALL_THAT_DECIDES_AGREES()
        first = {"key": printable(inside[0].key), "end": end}
        notes.append(Kind.INSIDE_VALUES_DIFFER(count=len(inside), counts=counts, **first))
    if matched:
        first = {"key": printable(matched[0].key), "notes": list(matched[0].reasons)}
        notes.append(Kind.INSIDE_VALUES_FOUND(count=len(matched), **first))
    return notes
