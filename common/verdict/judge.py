"""Judge whole logs: every tensor of two sides, in the reference's order, and where it starts.

`judge_logs` streams the logs tensor by tensor.  It starts no process, writes nothing and prints
nothing: logs in, rows out.  NumPy only.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.logs.independence import ENOUGH_FLOATS
from twincheck.common.logs.key import Key
from twincheck.common.logs.noise import SEEDS
from twincheck.common.logs.of_a_run import AGAIN, LOGS, Logs, not_judged
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.half import HALF
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import escaped
from twincheck.common.verdict.comparisons import OWN, Comparisons, Memo
from twincheck.common.verdict.half import Half
from twincheck.common.verdict.inside import Inside
from twincheck.common.verdict.needs import Need
from twincheck.common.verdict.operators import made_exact
from twincheck.common.verdict.row import (
    FAILING,
    HARMLESS,
    NOISE_ONLY,
    Row,
    exit_code,
    first_bad_row,
    worst,
)
from twincheck.common.verdict.settle import Settling
from twincheck.common.verdict.tolerances import tolerance

Log = str | os.PathLike | Mapping[str, np.ndarray]


@dataclass
class Judgement:
    """The outcome of judging two logs: rows in the reference's order, and what they come to."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cases: tuple[str, ...] = ()  # prefixes of the cases' keys
    lines: dict[str, object] = field(default_factory=dict)  # key of an origin -> line/find.py's
    # The further runs that would show more, in the order in which they are to be had.
    needs: dict[str, Need] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The worst row's verdict (INVALID where nothing was compared)."""
        return worst(row.verdict for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 aligned, 1 not aligned, 2 nothing was compared."""
        return exit_code(row.verdict for row in self.rows)

    @property
    def guide_passed(self) -> bool | None:
        """The guide's own rule on every row; None where there is none."""
        passed = [row.guide_passed is True for row in self.rows]
        return all(passed) if passed else None

    @property
    def first_diverged(self) -> str | None:
        """The key of the first row that is not aligned."""
        row = first_bad_row(self.rows)
        return None if row is None else row.key

    def look_closer(self, comparisons: Comparisons, keys: Sequence[Key]) -> dict[str, Need]:
        """Return what would show more of the rows up to the first that fails whatever it shows.

        And of those behind it whose cases were looked at: the measured noise, or a repeated run.
        """
        logs, failed, unmeasured = comparisons.logs, False, []
        moved = logs.sidecars["noise"].moved
        looked_at = {name: set(logs.sidecars[name].batches) for name in ("noise", AGAIN[0])}
        asked: dict[str, dict[tuple[str, str], str]] = {name: {} for name in looked_at}
        for row, key in zip(self.rows, keys, strict=True):
            of_a_case = not failed or any(key.case in cases for cases in looked_at.values())
            if row.verdict not in FAILING or not of_a_case:
                continue
            measured, asks = logs.get("noise", key) is not None, ""
            if in_doubt(comparisons.row(OWN, key)):
                # The cheaper run comes first, unless it has not got that far.
                repeated = len(logs.again(key))
                left = 0 < repeated < len(AGAIN) or key.case not in looked_at[AGAIN[0]]
                if row.verdict == "PRECISION" and left:
                    asks = AGAIN[0]
                elif not measured or moved.get(key.case + key.setup, SEEDS[0]) < SEEDS[0]:
                    asks = "noise"
            failed = failed or not asks
            if asks and (not failed or key.case in looked_at[asks]):
                asked[asks].setdefault((key.case_name, key.setup), row.key)
                unmeasured += [] if measured else [key.case_name]
            failed = failed or measured and asks == "noise"
        if unmeasured:
            cases = escaped(", ".join(dict.fromkeys(unmeasured)))
            self.notes.append(Kind.NOISE_NOT_MEASURED(cases=cases))
        names = zip(("noise", "again"), asked.values(), strict=True)
        return {n: Need(next(iter(of.values())), tuple(of)) for n, of in names if of}

    def as_json(self) -> dict[str, object]:
        """The report that --json writes."""
        names = ("verdict", "exit_code", "guide_passed", "first_diverged", "notes")
        told = {name: getattr(self, name) for name in names}
        return told | {"rows": [row.as_json() for row in self.rows]}


def judge_logs(
    ref32: Log,
    cand32: Log,
    ref64: Log | None = None,
    cand64: Log | None = None,
    *,
    step: object = "",
    model: str = "",
    obtainable: Collection[str] = (),
    strict: bool = False,
    allow_nan: bool = False,
    memo: Memo | None = None,
    **further: Log | None,
) -> Judgement:
    """Judge a candidate's logs (paddle) against a reference's (torch).

    ref64, cand64  the float64 runs; without both of them no row is better than CLOSE
    obtainable     further runs that the caller can get, by their names in LOGS: judging ends with
                   the first row that needs teacher-forced logs or exact operators, if among these
    strict         what is inside a model decides too, as in the workbench's own pairs always
    allow_nan      NaN at the same places in all runs are meant: only the other values are compared
    memo           what was made of these logs when fewer of them were there; takes what is made
    further        other runs' logs, by their names in LOGS, which says what they are
    Sidecars are read where there are any.  Raises LogError for a file that is no log.
    """
    unknown = further.keys() - LOGS.keys()
    if unknown:
        raise TypeError(f"judge_logs: {min(unknown)}")
    sources = dict(ref32=ref32, cand32=cand32, ref64=ref64, cand64=cand64, **further)
    with ExitStack() as stack:
        logs = Logs(stack, sources)
        judgement = Judgement(cases=logs.cases)
        missing = logs.leave_out_lone_float64()
        if missing:
            judgement.notes.append(Kind.GUIDE_DECIDES(log=LOGS[missing]))
        for name, side in (("ref32", "torch"), ("cand32", "paddle")):
            reason = logs.sidecars[name].no_float64
            if reason:
                judgement.notes.append(Kind.NO_FLOAT64_PATH(side=side, why=escaped(reason)))
        keys = [Key.parse(key, logs.cases) for key in logs.keys()]
        passed_over, notes = not_judged(keys, logs)
        judgement.notes += notes
        keys = [key for key in keys if key not in passed_over]
        strict = strict or logs.sidecars["ref32"].built_in
        memo = memo or Memo()
        memo.begin(sources, [str(key) for key in keys if logs.of_sums(key)])
        comparisons = Comparisons(logs, keys, allow_nan, memo)
        settling = Settling(comparisons, strict)
        for key in keys:
            row = settling.row(key)
            row.step, row.model = step, model
            judgement.rows.append(row)
            off = not _is_harmless(row) and not (row.inside and not strict)
            if off and "teacher_forced" in obtainable or settling.needs and "exact" in obtainable:
                break
        inside = Inside(comparisons, keys[: len(judgement.rows)])
        inside.settle_carried(judgement.rows, strict)
        if not strict:
            judgement.notes += inside.settle(judgement.rows)
        half = Half(logs)
        if half.on:
            judgement.notes += half.judge(judgement.rows, inside.keys)
        closer = {}
        if logs.sidecars["ref32"].dtype not in HALF:  # it has a measure of its own (half.py)
            closer = judgement.look_closer(comparisons, inside.keys)
        floats = [i for i, r in enumerate(judgement.rows) if r.measure not in ("", "count")]
        if all(judgement.rows[i].nans == judgement.rows[i].size for i in floats):
            for i in floats:  # with --allow nan
                judgement.rows[i] = judgement.rows[i].decided("INVALID", Kind.NO_NUMBERS())
        if "teacher_forced" in logs:
            judgement.needs = settling.needs | inside.needs | closer
        else:  # a row that is rounding's has no origin to be found
            off = next((row.key for row in judgement.rows if not _is_harmless(row)), None)
            judgement.needs = closer | ({} if off is None else {"teacher_forced": Need(off)})
        judgement.notes += _notes(judgement.rows, logs)
        return judgement


def judge_folder(
    folder: Path, stems: Sequence[str], memos: dict[str, Memo] | None = None, **how
) -> dict[str, Judgement]:
    """Stem -> the verdicts of its logs; the torch and paddle float32 logs of each must be there.

    memos  stem -> what was made of its logs when fewer were there; takes what is made
    how    as for judge_logs
    """
    logs = {stem: ResultFolder(folder).judged_logs(stem) for stem in stems}
    memos = {} if memos is None else memos
    return {s: judge_logs(**logs[s], memo=memos.setdefault(s, Memo()), **how) for s in stems}


def in_doubt(row: Row) -> bool:
    """True for a row that fails by the plain rule, and may be rounding's by the measured noise.

    A gap between the float64 runs that is as large as float32's own noise is none of rounding's.
    """
    if row.gap is None or row.noise_ref is None or row.measure == "claim":
        return False
    small = row.gap < max(row.noise_ref, row.noise_cand or 0.0)
    return row.verdict == "PRECISION" or row.verdict in ("DIVERGED", "CONSTANT") and small


def _is_harmless(row: Row) -> bool:
    known = Kind.CLIPPED_LOSS in row.excuses or row.by_itself
    return row.verdict in HARMLESS or known


def _notes(rows: Sequence[Row], logs: Logs) -> list[str]:
    """Return what a reader must know beside the rows."""
    notes: list[str] = []
    if not rows:
        notes.append(Kind.NO_KEY_IN_COMMON())
    if "ref64" not in logs:
        notes.append(Kind.FLOAT32_LOGS_ALONE())
    numbers = [
        row
        for row in rows
        if row.size == 1
        and len({logs.shape(run, row.key) for run in ("ref32", "cand32")} - {None}) > 1
    ]
    if numbers:
        notes.append(Kind.NUMBERS_OF_OTHER_SHAPES(count=len(numbers), key=escaped(numbers[0].key)))
    measured = [row for row in rows if row.max_abs is not None and row.scale is not None]
    alike = measured and not any(row.max_abs for row in measured)
    if alike and sum(r.size for r in measured) >= ENOUGH_FLOATS and not logs.may_be_alike:
        notes.append(Kind.EVERY_BIT_THE_SAME())
    nans = [row for row in rows if row.nans]
    if nans:
        notes.append(Kind.NAN_PASSED(count=len(nans), key=escaped(nans[0].key)))
    notes += logs.notes([row.key for row in rows])
    passing = {Kind.MEASURED: Kind.PASSES_BY_MEASURED, Kind.REPEATED: Kind.PASSES_BY_REPEATED}
    for excuse, passes_by in passing.items():
        closer = [row for row in rows if excuse in row.excuses]
        if closer:
            row = max(closer, key=lambda row: row.noise_cand / (row.noise_ref or 1e-300))
            errors = {"error": row.noise_cand, "noise": row.noise_ref}
            notes.append(passes_by(count=len(closer), key=escaped(row.key), **errors))
    lost = (row for row in rows if row.key in logs.sidecars["noise"].lost)
    lost = [row for row in lost if row.verdict in FAILING or Kind.MEASURED in row.excuses]
    if lost:
        notes.append(Kind.NOISE_LOST(count=len(lost), key=escaped(lost[0].key)))
    exact = made_exact(logs.sidecars["cand64"].inexact)
    if exact:
        notes.append(Kind.COMPUTED_EXACTLY(operators=exact))
    capped = sum(row.capped for row in rows)
    if capped:
        notes.append(Kind.CAPPED(count=capped, cap=tolerance("cap")))
    empty = sum(row.shows_nothing == NOISE_ONLY for row in rows)
    if empty:
        notes.append(Kind.ZERO_GRADIENTS(count=empty))
    return notes
