"""What the logs say of each tensor: rows that are functions of its arrays and of the measurement.

A key has up to five, each beside the same reference.  `own` is the row of the runs as they were;
`fed` of the candidate fed with the reference's values, `exact` of that with Paddle's inexact
operators made exact, `free` of such a run that is fed nothing; `rounded` beside the reference
whose constants are rounded to float32.  What they come to together is for settle.py.  NumPy only.
"""

import math
import os
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from functools import cached_property, partial

import numpy as np

from twincheck.common.logs.key import BUFFER, Key
from twincheck.common.logs.of_a_run import AGAIN, STATISTICS, Logs
from twincheck.common.logs.sums import place_of, sample_of
from twincheck.common.system.half import EPSILONS, HALF, overflowing
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict import causes
from twincheck.common.verdict.choices import Choice, judge_choice
from twincheck.common.verdict.context import Context, longest_sums, noisier
from twincheck.common.verdict.measures import scale_of
from twincheck.common.verdict.operators import adam_noise
from twincheck.common.verdict.origins import sketch
from twincheck.common.verdict.row import Row
from twincheck.common.verdict.tensor import compare_shapes, judge_tensor

OWN = "own"
# Row -> the runs that it compares, in the rule's order.
RUNS = {
    OWN: ("ref32", "cand32", "ref64", "cand64"),
    # Its float32 noise is the reference's own.
    "fed": ("ref32", "ref32", "ref64", "teacher_forced"),
    "exact": ("ref32", "ref32", "ref64", "exact"),
    "free": ("ref32", "ref32", "ref64", "free"),
    "rounded": ("ref32", "cand32", "rounded", "cand64"),
}
SKETCH, LOGITS = "sketch", "logits"  # what is known of a tensor beside rows
_WHOLE = {*RUNS[OWN], "noise", *AGAIN}  # what any of them may depend on, beside its own run


class Memo:
    """A memo of what was made of one stem's logs, from one judging to the next, and for a bundle.

    A red check judges its logs up to five times, each time with one log more.
    """

    def __init__(self):
        self.made: dict[tuple[str, Key], object] = {}  # (row, key) -> it, as it was made
        self.scales: dict[str, float] | None = None  # S of each group
        self._sources: dict[str, tuple] = {}  # log -> its version

    def begin(self, sources: Mapping[str, object], summed: Collection[str]) -> None:
        """Forget what depends on a log that is another one now.

        summed  keys of which some log holds sums
        """
        now = {name: _version(path) for name, path in sources.items() if path is not None}
        now["summed"] = tuple(sorted(summed))
        before, self._sources = self._sources, now
        changed = {name for name in now.keys() | before if now.get(name) != before.get(name)}
        if changed & {"summed", "ref32", "ref64"}:
            self.scales = None
        if changed & {"summed", *_WHOLE}:
            self.made.clear()
        runs = RUNS | {SKETCH: RUNS["fed"]}
        made = self.made.items()
        self.made = {at: it for at, it in made if changed.isdisjoint(runs.get(at[0], ()))}


def _version(path: object) -> tuple:
    if isinstance(path, Mapping):
        return (id(path),)
    about = os.stat(path)
    return str(path), about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


class Comparisons:
    """Makes the rows of a log's keys, and remembers them.

    keys      all that are judged, in their order
    memo      where what is made is kept, and S of each group of tensors is or will be
    shapes    of the keys' tensors; None: what the logs say
    """

    def __init__(
        self,
        logs: Logs,
        keys: Iterable[Key],
        allow_nan: bool = False,
        memo: Memo | None = None,
        shapes: Mapping[Key, tuple[int, ...]] | None = None,
    ):
        self.logs = logs
        self.keys = list(keys)
        self.memo = memo or Memo()
        self._allow_nan = allow_nan
        self._batches = logs.sidecars["ref32"].batches or logs.sidecars["ref64"].batches
        self._half = logs.sidecars["ref32"].dtype or ""
        self._shapes = shapes
        self._choices = {name: told.choices for name, told in logs.sidecars.items()}

    @cached_property
    def scales(self) -> dict[str, float]:
        """S of each group of tensors, the largest scale of its kind."""
        if self.memo.scales is None:
            log = self.logs["ref64" if "ref64" in self.logs else "ref32"]
            self.memo.scales = {}
            for key in (Key.parse(text, self.logs.cases) for text in log):
                if key.group:
                    largest = max(self.memo.scales.get(key.group, 0.0), scale_of(log[str(key)]))
                    self.memo.scales[key.group] = largest
        return self.memo.scales

    @cached_property
    def _terms(self) -> dict[Key, int]:
        """Key -> the length of the longest sum that its tensor may be made of."""
        shape_of = self._shapes.get if self._shapes else self._shape
        of_case: dict[str, dict[Key, tuple[int, ...]]] = {}
        for key in self.keys:
            of_case.setdefault(key.case, {})[key] = shape_of(key) or ()
        terms: dict[Key, int] = {}
        for shapes in of_case.values():
            terms |= zip(shapes, longest_sums(list(shapes.values())), strict=True)
        return terms

    def _shape(self, key: Key) -> tuple[int, ...] | None:
        return self.logs.shape("ref32", key)

    def row(self, which: str, key: Key) -> Row | None:
        """One of a key's rows, a copy that may be changed; None where a log lacks what it takes."""
        return copy(self._made(which, key))

    def sketch(self, key: Key) -> list[float] | None:
        """Return the candidate's error on the reference's values in few numbers (origins.py)."""
        return self._made(SKETCH, key)

    def clipped(self, key: Key) -> bool:
        """Return whether the logits behind a loss lie too far apart for Paddle's softmax."""
        return bool(self._made(LOGITS, key))

    def _made(self, which: str, key: Key) -> object:
        at = (which, key)
        if at not in self.memo.made:
            self.memo.made[at] = self.make(which, key)
        return self.memo.made[at]

    def make(self, which: str, key: Key) -> object:
        """Make what the logs say of a key: one of the rows, or what is known beside them."""
        if which == SKETCH:
            return sketch(*(self.logs.get(name, key) for name in ("ref64", "teacher_forced")))
        if which == LOGITS:
            return causes.clipped_logits(key, self.logs)
        return self._own(key) if which == OWN else self._other(which, key)

    def _other(self, which: str, key: Key) -> Row | None:
        """A row beside the one of the runs as they were."""
        arrays = [self.logs.get(name, key) for name in RUNS[which]]
        if which == "fed" and str(key) in self._choices["ref32"]:
            choice = self._teacher_forced_choice(key)
            if choice is not None:
                return choice
        if any(array is None for array in arrays):
            return None
        return self._judged(which, key, arrays)

    def _own(self, key: Key) -> Row:
        row = self._compared(key)
        if row.verdict == "PRECISION" and causes.is_clipped_loss(key, self.logs, row.allowed):
            clipped = {"excuses": (Kind.CLIPPED_LOSS,), "reasons": (Kind.SOFTMAX_CLIPS(),)}
            row = row.decided("CONSTANT", **clipped)
        row.inside = self.logs.is_inside(key)
        return row

    def _compared(self, key: Key) -> Row:
        missing = self.logs.missing(key)
        if missing and not self.logs.is_idle(key):
            if key.kind == BUFFER or key.local in STATISTICS:
                missing = Kind.BUFFER_MISSING(missing=missing)
            return Row(str(key), "INVALID", reasons=(missing,))
        if str(key) in self._choices["ref32"] or str(key) in self._choices.get("ref64", {}):
            row = self._choice(key)
            if row is not None:
                return row
        arrays = [self.logs.get(name, key) for name in RUNS[OWN]]
        if missing:  # of the other side of a pair of runs
            others = arrays[1::-1] + arrays[:1:-1]
            arrays = [
                np.zeros_like(other) if own is None and other is not None else own
                for own, other in zip(arrays, others, strict=True)
            ]
        if self._half in HALF:
            if key.kind == "grad":  # Paddle's BatchNorm keeps its parameters in float32 there
                arrays[1] = arrays[1].astype(arrays[0].dtype)
            arrays[2:] = map(overflowing, arrays[:2], arrays[2:])
        row = self._judged(OWN, key, arrays)
        if "ref64" in self.logs and arrays[2] is None:
            row.in_float64 = False
            row.add(Kind.NOT_IN_FLOAT64())
        if key.is_gradient and row.verdict != "INVALID":
            causes.note_gradient(row, *(arrays[:2] if arrays[2] is None else arrays[2:]))
        return row

    def _judged(self, which: str, key: Key, arrays: list[np.ndarray | None]) -> Row:
        of_sums = self.logs.of_sums(key)
        row = self._unlike(key, RUNS[which]) if of_sums else None
        row = row or judge_tensor(str(key), *arrays, self._context(which, key, arrays[2]))
        if of_sums:  # say of which tensor the numbers are
            row.shape = self._shape(key)
            row.size = math.prod(row.shape)
            if row.worst_index is not None:
                row.worst_index, row.of_sums = place_of(row.shape, row.worst_index)
        return row

    def _unlike(self, key: Key, runs: Iterable[str]) -> Row | None:
        """The row of tensors whose shapes differ, where sums would not show it; else None."""
        shapes = [self.logs.shape(run, key) for run in runs]
        shapes = [shape for shape in shapes if shape is not None]
        if len(set(shapes)) == 1:
            return None
        row = Row(str(key), "INVALID")
        compare_shapes(row, [np.broadcast_to(np.float64(0), shape) for shape in shapes])
        return row

    def _context(self, which: str, key: Key, ref64: np.ndarray | None) -> Context:
        """Return what is known of a key's tensor beside its values, for one of its rows."""
        fed = which not in (OWN, "rounded")
        scores = None  # of which a choice's margin is a difference
        if key.choice == "margin":
            run = "ref32" if ref64 is None else "ref64"
            scores = self.logs.get(run, key.of_choice("scores"))
        fitting = (prefix for prefix in self._batches if str(key).startswith(prefix))
        batch = self._batches.get(max(fitting, key=len, default=""))
        return Context(
            epsilon=EPSILONS.get(self._half, EPSILONS["float32"]),
            kind_scale=self.scales.get(key.group),
            batch=None if key.kind or key.is_optimizer else batch,
            stepped=key.is_optimizer,
            noisier=noisier(key.is_optimizer, self._terms[key], adam_noise()),
            varied=key.case_name in self.logs.sidecars["ref32"].varied,
            difference_of=0.0 if scores is None else scale_of(scores[np.isfinite(scores)]),
            teacher_forced=fed,
            allow_nan=self._allow_nan,
            sampled=sample_of(self._shape(key)) if self.logs.of_sums(key) else 0,
            noise=self.logs.get("noise", key),
            again=tuple if fed else partial(self.logs.again, key),
        )

    def _choice(self, key: Key) -> Row | None:
        """The verdict of a discrete choice; None where a log lacks what it takes."""
        runs = {name: self._read_choice(name, key) for name in RUNS[OWN]}
        base = "ref64" if runs["ref64"] else "ref32"
        margin = self._part_of_choice(base, key, "margin")
        others = [runs["ref32"], runs["cand64"]] if runs["ref64"] else [None, None]
        needed = runs.values() if runs["ref64"] else (runs["ref32"], runs["cand32"])
        if margin is None or None in needed:
            return None
        return judge_choice(str(key), runs[base], margin, others[0], runs["cand32"], others[1])

    def _teacher_forced_choice(self, key: Key) -> Row | None:
        """Judge a choice made on the reference's values; there is no float32 run of it."""
        reference, fed = (self._read_choice(name, key) for name in ("ref64", "teacher_forced"))
        margin = self._part_of_choice("ref64", key, "margin")
        if margin is None or reference is None or fed is None:
            return None
        return judge_choice(str(key), reference, margin, None, None, fed)

    def _read_choice(self, name: str, key: Key) -> Choice | None:
        """Return the choice of a run, with its scores; None where its log lacks one of them."""
        scores = self._part_of_choice(name, key, "scores")
        choice = None if scores is None else self.logs.get(name, key)
        places = self._part_of_choice(name, key, "places")
        return None if choice is None else Choice(choice, scores, places)

    def _part_of_choice(self, name: str, key: Key, part: str) -> np.ndarray | None:
        """Return what a run's log has beside a choice: its scores, their places, its margin."""
        ledger = self._choices.get(name, {}).get(str(key), {})
        return self.logs.get(name, ledger[part]) if part in ledger else None
