"""Judge whole logs: every tensor of two sides, in the reference's order, and where it starts.

`judge_logs` streams up to five logs tensor by tensor.  It starts no process, writes nothing and
prints nothing: logs in, rows out.  NumPy only.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from common.logs.key import BUFFER, Key
from common.logs.leading import KEPT
from common.logs.pickle_machine import escaped
from common.logs.sums import place_of, sample_of
from common.system.half import EPSILONS, HALF, overflowing
from common.verdict.causes import (
    A_CLIPPED_LOSS,
    CLIPPED,
    NOISE_ONLY,
    class_of,
    explain,
    is_clipped_loss,
    note_gradient,
)
from common.verdict.choices import Choice, judge_choice
from common.verdict.comparable import mismatch
from common.verdict.context import Context, LongestSum
from common.verdict.half import BY_ITSELF, Half
from common.verdict.independence import ENOUGH_FLOATS
from common.verdict.inside import STATISTICS, Inside, is_inside
from common.verdict.logs_of_a_run import AGAIN, LOGS, Logs, kind_scales, not_judged
from common.verdict.measures import largest_scale
from common.verdict.operators import Evidence, constant_allowed, made_exact, of_class
from common.verdict.origins import Streams, parent_code
from common.verdict.progress import Progress
from common.verdict.row import (
    AGREEING,
    FAILING,
    FED,
    HARMLESS,
    NO_STEP,
    NOT_FED,
    Row,
    exit_code,
    first_bad_row,
    worst,
)
from common.verdict.rule import MEASURED, REPEATED, judge_tensor
from common.verdict.tolerances import tolerance

_FOUR = ("ref32", "cand32", "ref64", "cand64")
# What it took beside the plain rule -> the same in words.
_CLOSER = {
    MEASURED: "the noise that rounding makes there, which was measured",
    REPEATED: "a repeated run, in which rounding fell otherwise",
}
_FED = ("ref32", "ref32", "ref64", "local64")
# (key, what was known before its row, the row): see `JudgeOfRows.known`.
Observer = Callable[[Key, dict[str, object], Row], None]


@dataclass
class Judgement:
    """What judging two logs found: rows in the reference's order, and what they come to."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cases: tuple[str, ...] = ()  # prefixes of the cases' keys
    # A run in which Paddle's inexact operators are exact would show more: fed, or fed nothing.
    asks_exact: bool = False
    asks_free: bool = False
    # Cases with rows that do not pass, and that the noise decides, which was not measured there.
    asks_noise: tuple[str, ...] = ()
    # Cases with rows that are less exact than float32, by a run that was not repeated.
    asks_again: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst row's verdict (INVALID where nothing was compared)."""
        return worst(row.verdict for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 aligned, 1 not aligned, 2 nothing was compared."""
        return exit_code(row.verdict for row in self.rows)

    @property
    def harmless(self) -> bool:
        """True where no row is to be traced to where it starts."""
        return all(_is_harmless(row) for row in self.rows)

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

    def as_json(self) -> dict[str, object]:
        """The report that --json writes."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "guide_passed": self.guide_passed,
            "first_diverged": self.first_diverged,
            "notes": self.notes,
            "rows": [row.as_json() for row in self.rows],
        }


def judge_logs(
    ref32: str | os.PathLike | Mapping[str, np.ndarray],
    cand32: str | os.PathLike | Mapping[str, np.ndarray],
    ref64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    cand64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    *,
    local64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    exact64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    free64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    noise: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    rounded64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    again1: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    again2: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    again3: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    step_ref64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    step_cand64: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    step_cand: str | os.PathLike | Mapping[str, np.ndarray] | None = None,
    batch: int | Mapping[str, int | None] | None = None,
    step: object = "",
    model: str = "",
    until_off: bool = False,
    until_asked: bool = False,
    strict: bool = False,
    allow_nan: bool = False,
    observer: Observer | None = None,
    progress: Progress | None = None,
) -> Judgement:
    """Judge a candidate's logs (paddle) against a reference's (torch).

    ref64, cand64  the float64 runs; without both of them no row is better than CLOSE
    local64        the candidate's float64 run fed with the reference's values, probe by probe: once
                   a row is off, the rows after it take their verdict from it, so that what was only
                   passed on is CARRIED and every origin is found
    exact64        the same run with Paddle's inexact operators computed exactly: it shows which
                   differences are theirs
    free64         such a run that is fed nothing: whether they explain all that is off
    noise          how far rounding moves the reference (common/logs/noise.py)
    rounded64      the reference's float64 run, its constants rounded to float32
    again1 …       the candidate's float32 run, repeated from starts beside its own
    step_*         both float64 runs, and the candidate's in half precision, whose modules are fed
                   the reference's values in half precision
    batch          length of the batch axis, or one for each prefix of keys; None: the sidecar's
    until_off      end with the first row that shows that single-step logs will be wanted: it is not
                   HARMLESS, and decides
    until_asked    end with the first row that a run with exact operators would show more of
    strict         what is inside a model decides too, as in the workbench's own pairs always
    allow_nan      NaN at the same places in all runs are meant: only the other values are compared
    observer       is told each row as it was judged, and what that needed of the rows before it
    progress       of these logs, files all: what was settled when fewer of them were there
    Sidecars are read where there are any.  Raises LogError for a file that is no log.
    """
    sources = dict(ref32=ref32, cand32=cand32, ref64=ref64, cand64=cand64, local64=local64)
    sources |= dict(exact64=exact64, free64=free64, noise=noise, rounded64=rounded64)
    sources |= dict(again1=again1, again2=again2, again3=again3)
    sources |= dict(step_ref64=step_ref64, step_cand64=step_cand64, step_cand=step_cand)
    with ExitStack() as stack:
        logs = Logs(stack, sources)
        judgement = Judgement(cases=logs.cases)
        if ("ref64" in logs) != ("cand64" in logs):
            missing = LOGS["cand64" if "ref64" in logs else "ref64"]
            judgement.notes.append(f"{missing} is not there: the guide's rule decides")
            logs.leave_out("ref64")
            logs.leave_out("cand64")
        for name, side in (("ref32", "torch"), ("cand32", "paddle")):
            reason = logs.sidecars[name].no_float64
            if reason:
                judgement.notes.append(f"the {side} side has no float64 path: {escaped(reason)}")
        keys = [Key.parse(key, logs.cases) for key in logs.keys()]
        passed_over, notes = not_judged(keys, logs)
        judgement.notes += notes
        keys = [key for key in keys if key not in passed_over]
        strict = strict or logs.sidecars["ref32"].built_in
        if progress is not None:
            summed = {str(key) for key in keys if logs.of_sums(key)}
            judgement.rows, before = progress.begin(sources, keys, summed)
        judge = JudgeOfRows(logs, strict, allow_nan, batch, progress and progress.scales)
        if judgement.rows and before is not None:
            judge.restore(keys[len(judgement.rows)], before)
        elif judgement.rows:
            judge.evidence.asked, judge.doubted = progress.asked, progress.doubted
        for key in keys[len(judgement.rows) :]:
            seeks = progress is not None and progress.seeks_first
            known = judge.known(key) if observer or seeks else {}
            row = judge.row(key)
            if seeks and judge.case_of(key).off:
                progress.first_off(len(judgement.rows), known)
            if observer:
                observer(key, known, copy(row))
            row.step, row.model = step, model
            row.inside = is_inside(key, logs)
            judgement.rows.append(row)
            if until_off and not _is_harmless(row) and not (row.inside and not strict):
                break
            if until_asked and judge.evidence.asked:
                break
        judgement.asks_exact = judge.evidence.asked
        if progress is not None:
            progress.end(judgement.rows, len(judgement.rows) == len(keys), judge)
        inside = Inside(logs, keys[: len(judgement.rows)])
        inside.settle_carried(judgement.rows, strict, judge.evidence.could_be)
        if not strict:
            judgement.notes += inside.settle(judgement.rows)
        half = Half(logs)
        if half.on:
            judgement.notes += half.judge(judgement.rows, inside.keys)
        judgement.asks_free = inside.asks_free
        judgement.asks_noise, judgement.asks_again = judge.cases_in_doubt(judgement.rows)
        _refuse_nan_alone(judgement.rows)
        judgement.notes += _notes(judgement.rows, logs)
        if judgement.asks_noise:
            judgement.notes.append(
                f"rows of {escaped(', '.join(judgement.asks_noise))} fail beside one float32 run "
                "of torch's: how far rounding moves them was not measured, which a check that runs "
                "torch does"
            )
        return judgement


def _cases(keys: Iterable[Key]) -> tuple[str, ...]:
    """The names of the keys' cases."""
    return tuple(dict.fromkeys(key.case_name for key in keys))


def in_doubt(row: Row) -> bool:
    """True for a row that fails by the plain rule, and may be rounding's by the measured noise.

    A gap between the float64 runs that is as large as float32's own noise is none of rounding's.
    """
    if row.gap is None or row.noise_ref is None or row.measure == "claim":
        return False
    noise = max(row.noise_ref, row.noise_cand or 0.0)
    small = row.verdict in ("DIVERGED", "CONSTANT") and row.gap < noise
    return row.verdict == "PRECISION" or small


def _is_harmless(row: Row) -> bool:
    """True for a row that need not be traced to where it starts."""
    known = row.excuse == A_CLIPPED_LOSS or row.measure.startswith(BY_ITSELF)
    return row.verdict in HARMLESS or known


class _Case:
    """What is remembered of a case from row to row: cases are runs of their own."""

    def __init__(self, name: str, logs: Logs):
        self.off = False  # whether a row is off already
        self.failing = False  # whether one does not pass
        self.failing_setups: set[str] = set()  # set-ups on given gradients of which one does not
        self.longest_sum = LongestSum()
        probed = logs.sidecars["ref32"].modules
        self.modules = {module[len(name) :] for module in probed if module.startswith(name)}


class JudgeOfRows:
    """Judges row after row, and remembers whether one was off already.

    batch    None: what the sidecars say
    scales   S of each group of tensors; None: of all that the logs hold
    """

    def __init__(
        self,
        logs: Logs,
        strict: bool,
        allow_nan: bool,
        batch: int | Mapping[str, int | None] | None = None,
        scales: dict[str, float] | None = None,
    ):
        self.logs = logs
        self.allow_nan = allow_nan
        if batch is None:
            batch = logs.sidecars["ref32"].batches or logs.sidecars["ref64"].batches or None
        self.batch = batch
        self.strict = strict
        self.half = logs.sidecars["ref32"].dtype or ""
        if scales is None:
            scales = kind_scales(logs["ref64" if "ref64" in logs else "ref32"], logs.cases)
        self.kind_scales = scales
        self.choices = {name: logs.sidecars[name].choices for name in logs.names()}
        self.streams = Streams()
        self.doubted: list[Key] = []  # of rows that the measured noise or a repeated run decides
        self.evidence = Evidence(logs, self.kind_scales)
        self._cases: dict[str, _Case] = {}

    def case_of(self, key: Key) -> _Case:
        """What is remembered of a key's case."""
        if key.case not in self._cases:
            self._cases[key.case] = _Case(key.case, self.logs)
        return self._cases[key.case]

    def known(self, key: Key) -> dict[str, object]:
        """What the row of a key depends on beside the logs' tensors, for JSON.

        It is what the rows before have left; a fresh judge that is told it makes the same row.
        """
        case = self.case_of(key)
        parent = parent_code(key, case.modules)
        return {
            "S": self.kind_scales.get(key.group),
            "off": case.off,
            "failing": case.failing,
            "failing_setups": sorted(case.failing_setups),
            "longest_sum": case.longest_sum.state(),
            "streams": [] if parent is None else self.streams.seen(key, parent),
        }

    def row_from(self, key: Key, known: Mapping[str, object]) -> Row:
        """The row of a key by itself, from what `known` gave; forgets all other rows."""
        self.restore(key, known)
        return self.row(key)

    def restore(self, key: Key, known: Mapping[str, object]) -> None:
        """Know before the row of a key what `known` gave, and nothing else."""
        self._cases.clear()
        self.streams = Streams()
        case = self.case_of(key)
        if known["S"] is not None:
            self.kind_scales[key.group] = known["S"]
        case.off, case.failing = known["off"], known["failing"]
        case.failing_setups.update(known["failing_setups"])
        case.longest_sum.restore(known["longest_sum"])
        for text in known["streams"]:
            self.came_around(Key.parse(text, self.logs.cases))

    def cases_in_doubt(self, rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Cases of which the noise is to be measured, and those to be repeated.

        Of rows up to the first that fails whatever these would show.  Half precision has a
        measure of its own (common/verdict/half.py).
        """
        if self.half in HALF:
            return (), ()
        doubted = {str(key): key for key in self.doubted}
        unmeasured, lost = [], []
        for row in rows:
            if row.verdict not in FAILING:
                continue
            key = doubted.get(row.key)
            if key is not None and self.logs.get("noise", key) is None:
                unmeasured.append(key)
            elif key and row.verdict == "PRECISION" and self.logs.get(AGAIN[0], key) is None:
                lost.append(key)
            else:
                break
        return _cases(unmeasured), _cases(lost)

    def row(self, key: Key) -> Row:
        """The next row, with its cause where one is known."""
        row, case = self.compared(key), self.case_of(key)
        if in_doubt(row):
            self.doubted.append(key)
        clipped = row.verdict == "PRECISION" and is_clipped_loss(key, self.logs, row.allowed)
        if clipped:
            row.verdict, row.excuse, row.note = "CONSTANT", A_CLIPPED_LOSS, CLIPPED
        close_by_nature = row.verdict == "CLOSE" and self.logs.get("ref64", key) is None
        if case.off:
            row = self.localised(key, row)
        elif row.verdict not in AGREEING and not close_by_nature:
            row.origin = row.verdict != "CLOSE"
            case.off = True
            if row.verdict in FAILING and self.logs.get("local64", key) is not None:
                self.came_around(key)  # the first of its kind
        if not clipped:
            exact, rounded = (partial(row_of, key) for row_of in (self.exact_row, self.rounded_row))
            self.evidence.settle(row, key, self.class_of(key), exact, rounded)
        if row.origin and row.verdict in FAILING and str(key) not in self.logs.unfed:
            case.failing = True
        explain(row, key, self.logs)
        return row

    def compared(self, key: Key) -> Row:
        """A row's verdict from the runs as they were."""
        missing = self.logs.missing(key)
        if missing:
            if key.kind == BUFFER or key.local in STATISTICS:
                missing += ": only the other side's forward changes this buffer"
            return Row(str(key), "INVALID", note=missing)
        if str(key) in self.choices["ref32"] or str(key) in self.choices.get("ref64", {}):
            row = self.choice(key)
            if row is not None:
                return row
        arrays = [self.logs.get(name, key) for name in _FOUR]
        if self.half in HALF:
            if key.kind == "grad":  # Paddle's BatchNorm keeps its parameters in float32 there
                arrays[1] = arrays[1].astype(arrays[0].dtype)
            arrays[2:] = map(overflowing, arrays[:2], arrays[2:])
        row = self.judged(key, arrays)
        if "ref64" in self.logs and arrays[2] is None:
            row.add_note("not in the float64 logs")
        if key.is_gradient and row.verdict != "INVALID":
            note_gradient(row, *(arrays[:2] if arrays[2] is None else arrays[2:]))
        return row

    def judged(self, key: Key, arrays: list[np.ndarray | None], single_step: bool = False) -> Row:
        """A row's verdict by the rule; arrays of ref32, cand32, ref64, cand64 (or local64)."""
        context = self.context(key, arrays[2], single_step)
        row = self.unlike(key, _FED if single_step else _FOUR) or judge_tensor(
            str(key), *arrays, context
        )
        self.say_of_sums(row, key)
        return row

    def repeated(self, key: Key) -> list[np.ndarray]:
        """The candidate's float32 values of further runs from starts beside this one, if any."""
        values = (self.logs.get(name, key) for name in AGAIN)
        return [value for value in values if value is not None]

    def unlike(self, key: Key, runs: Sequence[str]) -> Row | None:
        """The row of tensors whose shapes differ, where sums would not show it; else None."""
        if not self.logs.of_sums(key):
            return None
        shapes = [self.logs.shape(run, key) for run in runs]
        shapes = [shape for shape in shapes if shape is not None]
        if len(set(shapes)) == 1:
            return None
        row = Row(str(key), "INVALID")
        row.note = mismatch([np.broadcast_to(np.float64(0), shape) for shape in shapes])
        return row

    def say_of_sums(self, row: Row, key: Key) -> None:
        """Say of which tensor the numbers are that a row was judged by."""
        if not self.logs.of_sums(key):
            return
        row.shape = self.logs.shape("ref32", key)
        row.size = math.prod(row.shape)
        if row.worst_index is not None:
            row.worst_index, row.of_sums = place_of(row.shape, row.worst_index)

    def context(self, key: Key, ref64, single_step: bool) -> Context:
        """What is known of a key's tensor beside its values."""
        shape = self.logs.shape("ref32", key)
        of_sums = shape is not None and self.logs.of_sums(key)
        case = self.case_of(key)
        return Context(
            epsilon=EPSILONS.get(self.half, EPSILONS["float32"]),
            kind_scale=self.kind_scales.get(key.group),
            batch=None if key.kind or key.is_optimizer else self.batch_of(key),
            optimizer=(key.kind or "loss") if key.is_optimizer else "",
            longest_sum=case.longest_sum.after(shape),
            difference_of=self.scores_scale(key, ref64),
            single_step=single_step,
            allow_nan=self.allow_nan,
            constant=constant_allowed(
                of_class(self.class_of(key)),
                key,
                lambda k: None if self.logs.of_sums(k) else self.logs.get("ref64", k),
            ),
            sampled=sample_of(shape) if of_sums else 0,
            noise=self.logs.get("noise", key),
            again=[] if single_step else self.repeated(key),
        )

    def batch_of(self, key: Key) -> int | None:
        """The batch size that holds for a key: one number, or one for each prefix (longest)."""
        if not isinstance(self.batch, Mapping):
            return self.batch
        prefixes = [prefix for prefix in self.batch if str(key).startswith(prefix)]
        return self.batch[max(prefixes, key=len)] if prefixes else None

    def scores_scale(self, key: Key, ref64) -> float:
        """For a choice's margin: the scale of the scores that it is a difference of; else 0."""
        if key.choice != "margin":
            return 0.0
        scores = self.logs.get("ref32" if ref64 is None else "ref64", key.of_choice("scores"))
        return 0.0 if scores is None else largest_scale([scores[np.isfinite(scores)]])

    def class_of(self, key: Key) -> str:
        """The class of the candidate's module that a row belongs to."""
        sidecars = self.logs.sidecars
        return class_of(key, sidecars["cand64"].classes or sidecars["cand32"].classes)

    def exact_row(self, key: Key) -> Row | None:
        """The row of the run with exact operators; None where that has no such tensor."""
        ref32, ref64, exact64 = (self.logs.get(n, key) for n in ("ref32", "ref64", "exact64"))
        if ref64 is None or exact64 is None:
            return None
        return self.judged(key, [ref32, ref32, ref64, exact64], single_step=True)

    def rounded_row(self, key: Key) -> Row | None:
        """The row beside the reference whose constants are rounded; None without such a run."""
        if self.logs.get("rounded64", key) is None:
            return None
        runs = ("ref32", "cand32", "rounded64", "cand64")
        return self.judged(key, [self.logs.get(name, key) for name in runs])

    # ---- discrete choices -----------------------------------------------------------------------

    def choice(self, key: Key) -> Row | None:
        """The verdict of a discrete choice; None where a log lacks what it takes."""
        runs = {name: self.read_choice(name, key) for name in self.logs.names()}
        base = "ref64" if runs.get("ref64") else "ref32"
        margin = self.read_margin(base, key)
        others = {"cand32": runs["cand32"]}
        if base == "ref64":
            others |= {"ref32": runs["ref32"], "cand64": runs.get("cand64")}
        if runs[base] is None or margin is None or None in others.values():
            return None
        return judge_choice(
            str(key), runs[base], margin, others.get("ref32"), runs["cand32"], others.get("cand64")
        )

    def local_choice(self, key: Key) -> Row | None:
        """The same on the reference's values; there is no float32 local run."""
        reference, local = (self.read_choice(name, key) for name in ("ref64", "local64"))
        margin = self.read_margin("ref64", key)
        if margin is None or reference is None or local is None:
            return None
        return judge_choice(str(key), reference, margin, None, None, local)

    def read_choice(self, name: str, key: Key) -> Choice | None:
        """What a run would have chosen and its scores, None where its log lacks one."""
        ledger = self.choices[name].get(str(key))
        if not ledger:
            return None
        choice, scores, places = (
            self.logs.get(name, part)
            for part in (key, ledger.get("scores", ""), ledger.get("places", ""))
        )
        return None if scores is None or choice is None else Choice(choice, scores, places)

    def read_margin(self, name: str, key: Key) -> np.ndarray | None:
        """By how much a run's choice won, None where its log does not say."""
        ledger = self.choices[name].get(str(key))
        return self.logs.get(name, ledger.get("margin", "")) if ledger else None

    # ---- rows after one that is off -------------------------------------------------------------

    def localised(self, key: Key, row: Row) -> Row:
        """A row after one that is off: judged from the reference's values, if such a log is there.

        The local row's float32 noise is the reference's own: there is no float32 local run.
        """
        if "local64" not in self.logs:
            return row
        ref32, ref64, local64 = (self.logs.get(n, key) for n in ("ref32", "ref64", "local64"))
        if local64 is None and key.is_step:
            return self.unfed_step(key, row)
        if local64 is None or ref64 is None or row.verdict == "PRECISION":
            return row  # PRECISION: the gap is rounding's although something above is off
        if row.verdict == "FLIP":
            row.origin = True
            return row  # rounding decided here, whatever is off above
        local = self.local_choice(key) if str(key) in self.choices["ref32"] else None
        local = local or self.judged(key, [ref32, ref32, ref64, local64], single_step=True)
        case = self.case_of(key)
        if local.verdict in AGREEING:
            if row.verdict not in AGREEING:
                row.verdict, row.excuse = "CARRIED", ""
                row.add_note(f"right {FED}")
            return row
        if row.verdict in AGREEING and not self.strict:
            return row  # what it was fed may mean something else inside this side's model
        if key.is_own_pass and local.verdict != "CONSTANT" and case.failing:
            return row  # the whole model at the reference's weights: what is off above is off here
        # NaN may have been brought; another shape is the module's own.
        shapes = {self.logs.shape(run, key) for run in ("ref32", "cand32")}
        unlike = len(shapes) > 1 and is_inside(key, self.logs) and not self.strict
        failing = local.verdict in FAILING and row.verdict in FAILING
        if failing and not unlike and self.came_around(key):
            row.verdict = "CARRIED"
            row.add_note("the code around the modules, off above, brings it")
            return row
        local.mean_abs, local.max_abs, local.difference = row.mean_abs, row.max_abs, row.difference
        local.guide_passed, local.noise_cand, local.origin = row.guide_passed, row.noise_cand, True
        fed = FED if self.logs.was_fed(key) else NOT_FED
        notes = dict.fromkeys(filter(None, (local.note, row.note, fed)))
        local.note = "; ".join(notes)
        return local

    def unfed_step(self, key: Key, row: Row) -> Row:
        """A row of a large model's optimizer step, which is not run again on fed values.

        What is off in the model comes back in every step that runs it.  A set-up on given gradients
        runs nothing, and starts from the same weights: what is off there starts there.
        """
        case = self.case_of(key)
        setup = key.run.partition("/")[0]
        given = self.logs.sidecars["ref32"].given_gradients.get(key.case_name, {})
        if row.verdict not in FAILING:
            return row
        if setup in given.get("setups", ()):
            row.origin = setup not in case.failing_setups
            case.failing_setups.add(setup)
        elif case.failing:
            row.verdict, row.excuse = "CARRIED", ""
            row.add_note(f"a step of a model that is off above; {NO_STEP}")
        return row

    def came_around(self, key: Key) -> bool:
        """True where the parent's code was off before, and this is the same once more."""
        parent = parent_code(key, self.case_of(key).modules)
        if parent is None:
            return False
        arrays = (self.logs.get("ref64", key), self.logs.get("local64", key))
        return self.streams.explains(key, parent, *arrays)


def _refuse_nan_alone(rows: Sequence[Row]) -> None:
    """Make rows INVALID that hold NaN alone, where --allow nan leaves no float to compare."""
    floats = [row for row in rows if row.measure not in ("", "count")]
    if floats and all(row.nans == row.size for row in floats):
        for row in floats:
            row.verdict = "INVALID"
            row.add_note("no float of the log is a number: nothing was compared")


def _notes(rows: Sequence[Row], logs: Logs) -> list[str]:
    """What a reader must know beside the rows."""
    notes = []
    if not rows:
        notes.append("nothing was compared: the logs have no key in common")
    if "ref64" not in logs:
        notes.append("float32 logs alone: a wrong port that is close cannot be told from rounding")
    measured = [row for row in rows if row.max_abs is not None and row.scale is not None]
    alike = measured and not any(row.max_abs for row in measured)
    excused = logs.transplanted() or logs.told_apart()
    if alike and sum(row.size for row in measured) >= ENOUGH_FLOATS and not excused:
        notes.append(
            "every float is the same to the last bit on both sides: two frameworks seldom agree "
            "so; were both logs made by one?"
        )
    nans = [row for row in rows if row.nans]
    if nans:
        notes.append(
            f"{len(nans)} rows hold NaN at the same places on both sides, which --allow nan lets "
            f"pass, such as {escaped(nans[0].key)}"
        )
    summed = sum(logs.of_sums(row.key) for row in rows)
    if summed:
        notes.append(
            f"{summed} large tensors were judged by a sample of their values and by sums in which "
            "every value counts; --keep all keeps them whole"
        )
    if logs.hidden:
        notes.append(
            f"{len(logs.hidden)} choices among many were judged by the {KEPT} largest scores of "
            "each and by a sum in which every score counts; --keep all keeps all scores"
        )
    if logs.unfed:
        notes.append(
            f"{len(logs.unfed)} of torch's values were not fed to Paddle's modules, since they "
            f"have another type, order or mask there, such as {escaped(min(logs.unfed))}"
        )
    for excuse, said in _CLOSER.items():
        closer = [row for row in rows if excuse in row.excuse.split(", ")]
        if closer:
            row = max(closer, key=lambda row: row.noise_cand / (row.noise_ref or 1e-300))
            count = f"{len(closer)} rows pass" if len(closer) > 1 else "1 row passes"
            notes.append(
                f"{count} by {said} (docs/how-judged.md), such as {escaped(row.key)}: paddle's "
                f"float32 error is {row.noise_cand:.1e}, and torch's one run has "
                f"{row.noise_ref:.1e}"
            )
    exact = made_exact(logs.sidecars["cand64"].inexact)
    if exact:
        notes.append(f"computed exactly in the float64 run of so large a model: {exact}")
    capped = sum(row.capped for row in rows)
    if capped:
        allowed = tolerance("cap")
        notes.append(f"{capped} rows are noisier than {allowed:g} of their scale: capped")
    empty = sum(row.note.endswith(NOISE_ONLY) for row in rows)
    if empty:
        notes.append(
            f"{empty} gradients are zero in exact arithmetic: their agreement shows nothing"
        )
    return notes
