"""What one run of a worker is told (tape, forced choices, reference values), and what it records.

NumPy only and the same on both sides: a side turns tensors into arrays.
A model asks `current()`; with no session of its own it gets a plain one, which records nothing.

Naming.  A site is a module's qualified name and a local name.  Within a step the second call of a
site gets the suffix `#2`.  A part that will be recomputed (a reversible layer) runs inside
`scope(call)`, which counts from one again, so that the recomputation asks for the same names.
"""

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from twincheck.common.logs.draws import Draw
from twincheck.common.pair.tape import Tape
from twincheck.common.sides.draws import Draws, Dropouts
from twincheck.common.sides.places import line_of_model, makers, running_layer
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind

# Bytes of masks kept from a reversible layer's run for its recomputation, one a value: a small
# model's all, and no more than a few layers' of a long text, whose memory must not grow with depth.
_KEPT_MASKS = 1 << 26
_SHOWN = 5  # names in a sentence

# ---- which values inside a model are looked at ---------------------------------------------------
# A name is torch's name of a probed module, or of a named intermediate (`tap`) in one.  A pattern
# without `*`, `?` and `[` is a module's name, and stands for all within that module too; one with
# any of them is a shell's, for the whole name, whose `*` goes past dots.


class Selection:
    """The choice of `--probe` and `--no-probe`: what is looked at; without them everything.

    Patterns are told on the reference's names: the Paddle side renames its own before it asks.
    """

    def __init__(self, patterns: Sequence[str] = (), nothing: bool = False):
        self.patterns = tuple(patterns)
        self.nothing = nothing
        self.complete = False  # no model with other modules comes after the one that runs
        self._named: dict[str, tuple[str, ...]] = {}  # name that was asked for -> its patterns
        self._seen: set[str] = set()  # patterns of which a value was logged

    @property
    def is_partial(self) -> bool:
        """True where not everything is looked at."""
        return self.nothing or bool(self.patterns)

    def takes(self, name: str) -> bool:
        """Return whether this module or intermediate is looked at."""
        if not self.is_partial:
            return True
        if name not in self._named:
            self._named[name] = tuple(p for p in self.patterns if _matches(name, p))
        return bool(self._named[name]) and not self.nothing

    def saw(self, name: str) -> None:
        """A value of this module or intermediate was logged."""
        if self.patterns:
            self._seen.update(self._named.get(name, ()))

    def refuse_unseen(self) -> None:
        """Raise UserError for a pattern of which nothing was logged, where nothing can follow."""
        for pattern in self.patterns if self.complete else ():
            if pattern in self._seen:
                continue
            idle = [name for name, patterns in self._named.items() if pattern in patterns]
            if idle:
                raise UserError(Kind.PROBE_IDLE(pattern=pattern, name=idle[0]))
            known = _some(pattern, self._named)
            raise UserError(Kind.PROBE_UNKNOWN(pattern=pattern, known=known))


def _matches(name: str, pattern: str) -> bool:
    """True where a pattern names this, or a module that this is in."""
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(name, pattern)
    return name == pattern or name.startswith(f"{pattern}.")


def _some(pattern: str, names: Iterable[str]) -> str:
    """A few of the names in words, those first that are most like the pattern."""
    names = list(names)
    like = difflib.get_close_matches(pattern, names, _SHOWN, 0.0) if pattern else []
    shown = list(dict.fromkeys([*like, *names]))[:_SHOWN]
    several = Kind.PROBES_KNOWN(count=len(names), names=", ".join(shown))
    return several if names else Kind.PROBES_NONE()


# ---- a run ---------------------------------------------------------------------------------------


@dataclass
class Seen:
    """The record of what a run shows beside its arrays, under the names of the sidecar."""

    flips: list[str] = field(default_factory=list)  # where it alone would have chosen otherwise
    choices: dict[str, dict[str, str]] = field(default_factory=dict)  # key -> its margin and scores
    modules: dict[str, int] = field(default_factory=dict)  # probed -> how many parameters are in it
    converted: list[str] = field(default_factory=list)  # whose weights case.py's convert fuses
    places: dict[str, str] = field(default_factory=dict)  # key -> file:line that computed it
    classes: dict[str, str] = field(default_factory=dict)  # key -> the class of its module
    settings: dict[str, dict[str, float]] = field(default_factory=dict)  # layer -> how it was built
    made: dict[str, list] = field(default_factory=dict)  # the same -> the lines that built it
    idle: dict[str, str] = field(default_factory=dict)  # dropout of a rate of 0 -> its file:line
    # Tables that are float32 in a float64 run: hash -> where one is made, or rounded likewise.
    tables: dict[str, str] = field(default_factory=dict)
    # In half precision: module -> operator and the types of its floats -> calls.
    computed: dict[str, dict[str, int]] = field(default_factory=dict)
    # What became of running variances.
    variances: dict[str, dict[str, float]] = field(default_factory=dict)


class Session:
    """State of one run.  Fields that are None switch the matching instrument off.

    record      called with (key, array) for each choice and, while `probing`, each probe
    reference   teacher forcing: key -> the reference's float64 array, put in the probe's place
    forced      key -> int64 array: discrete choices to go on with instead of this run's own
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        record: Callable[[str, np.ndarray], None] | None = None,
        reference: Mapping[str, np.ndarray] | None = None,
        forced: Mapping[str, np.ndarray] | None = None,
    ):
        self.tape = Tape(seed)
        self.record = record
        self.reference = reference
        self.partly = False  # whether `reference` holds only some of what is probed
        self.forced = forced
        # Also record, and in teacher forcing replace, the gradient at each probe.
        self.gradients = False
        self.tables: Collection[str] | None = None  # the reference's, hashes; None: it notes them
        self.is_graph = False  # the model runs as a graph, inside of which nothing is seen
        self.probing = record is not None
        self.selection = Selection()  # which of the probes are looked at while `probing`
        self.watching = False  # operators are looked at although no probe is
        self.rename: Callable[[str], str] = str  # this side's probe name -> the reference's
        self.seen = Seen()
        self.choices: dict[str, np.ndarray] = {}  # key -> the choice that the run went on with
        self.keeps_choices = False  # also while nothing is recorded
        self._made_at = ""
        self.in_backward = False  # a gradient that a model or loss takes by itself is no row
        self.gradient_keys: set[str] = set()  # of the gradients at probes that are recorded
        self.half = False  # a probe held float16 or bfloat16
        self.configs: list[dict] = []  # configurations whose constants are logged
        self.draws = Draws()  # a model's own random numbers
        self.dropouts = Dropouts()
        self.moved = None  # of common/sides/noise_in_torch.py, where operators are moved
        self.running: list[str] = []  # names of the modules that run now, the innermost last
        self.begin()

    @property
    def probing(self) -> bool:
        """Return whether probes are looked at: where they are wanted, and can be."""
        return self.wants_probes and not self.is_graph

    @probing.setter
    def probing(self, wanted: bool) -> None:
        self.wants_probes = wanted

    def begin(self, step: int = 0, prefix: str = "") -> None:
        """Start a step: names count from one again; keys start with `prefix`.

        Raises Restart (common/sides/draws.py) where the last step cannot have been right.
        """
        self.step = step
        self.prefix = prefix
        self.recomputing = self._is_scope = False
        self._masks: dict[tuple, np.ndarray] = {}  # of scopes, till they are recomputed
        self._call = 0
        self._counts: dict[str, int] = {}
        self.draws.begin()
        self.dropouts.begin()

    def label(self, site: str, what: str = "") -> str:
        """The site's name at this call: `site`, then `site#2`, …

        `what` counts by itself: a draw's number must not depend on whether a module of that name,
        which one side alone may have, is looked at.
        """
        site = self.rename(site)
        name = f"{what}:{site}" if what else site
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        call = f"@{self._call + 1}" if self._call else ""
        return site + call + (f"#{count + 1}" if count else "")

    def next_call(self, site: str) -> int:
        """The number of this call of a part that will be recomputed, 0 for the first in a step."""
        name = f"call:{site}"
        self._counts[name] = self._counts.get(name, -1) + 1
        return self._counts[name]

    @contextmanager
    def scope(self, call: int, recompute: bool = False) -> Iterator[None]:
        """Run a part whose names count by themselves, so that its recomputation repeats them."""
        saved = self._counts, self._call, self.recomputing, self._is_scope
        self._counts, self._call, self.recomputing, self._is_scope = {}, call, recompute, True
        try:
            yield
        finally:
            self._counts, self._call, self.recomputing, self._is_scope = saved

    def site_of_draw(self) -> str:
        """The innermost module that runs now: where a model's own dropout draws."""
        return self.running[-1] if self.running else ""

    @contextmanager
    def unmoved(self, alone: str = "") -> Iterator[None]:
        """Compute inside as where no operators are moved.

        alone   the only kind of moves that this is for: noise or constants
        """
        meant = self.moved is not None and alone in ("", self.moved.kind)
        if meant:
            self.moved.still = True
        try:
            yield
        finally:
            if meant:
                self.moved.still = False

    @property
    def draws_from_tape(self) -> bool:
        """Return whether what a model draws by itself now comes from the tape."""
        return self.draws.taking or self.recomputing

    def draw(self, kind: str, shape: tuple[int, ...]) -> np.ndarray:
        """The numbers of the tape for a model's own draw of a kind (common/pair/tape.py)."""
        draw = Draw(kind, shape, self.rename(self.site_of_draw()), line_of_model())
        record = self.record is not None and not self.recomputing
        number = self.draws.enter(draw, self._counts, record)
        call = f"@{self._call + 1}" if self._call else ""
        return self.tape.numbers(kind, shape, f"{number + 1}{call}", self.step)

    def keep_mask(self, site: str, shape: tuple[int, ...], p: float) -> tuple[np.ndarray, str]:
        """True = keep, and the key of the row that says at which rate; "" where it has one."""
        recorded = self.record is not None and not self.recomputing
        label = self.label(site, "draw")
        place = recorded and (self.seen.places.get(f"{self.prefix}{label}:p") or line_of_model())
        draw = Draw(f"dropout {p:g}", shape, label, place or "")
        label, axes = self.dropouts.enter(draw, recorded)
        key = f"{self.prefix}{label}:p" if recorded else ""
        lengths = [length for length in shape if length != 1]
        if axes is None or len(axes) != len(lengths):
            return self._mask(label, shape, p), key
        turned = tuple(lengths[axes.index(axis)] for axis in range(len(axes)))
        return self._mask(label, turned, p).transpose(axes).reshape(shape), key

    def _mask(self, label: str, shape: tuple[int, ...], p: float) -> np.ndarray:
        """The tape's mask; what a part draws that will be recomputed is kept for that."""
        asked = self.step, label, shape, p
        mask = self._masks.pop(asked, None)
        if mask is None or not self.recomputing:
            mask = self.tape.keep_mask(label, self.step, shape, p)
        if self._is_scope and not self.recomputing:
            if sum(kept.size for kept in self._masks.values()) + mask.size <= _KEPT_MASKS:
                self._masks[asked] = mask
        return mask

    def snapshot(self) -> tuple[dict[str, int], list[str]]:
        """Return where names stand now, for `repeat`."""
        return dict(self._counts), list(self.running)

    @contextmanager
    def repeat(self, snapshot: tuple[dict[str, int], list[str]]) -> Iterator[None]:
        """Run again what ran after the snapshot (gradient checkpointing): the names repeat too."""
        saved = self._counts, self.running, self.recomputing
        counts, running = snapshot
        self._counts, self.running, self.recomputing = dict(counts), list(running), True
        try:
            yield
        finally:
            self._counts, self.running, self.recomputing = saved

    @contextmanager
    def at(self, function: Callable | None) -> Iterator[None]:
        """Note what is made meanwhile as made at this function's first line; it has returned."""
        code = getattr(inspect.unwrap(function), "__code__", None) if function else None
        self._made_at = f"{code.co_filename}:{code.co_firstlineno}" if code else ""
        try:
            yield
        finally:
            self._made_at = ""

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Record nothing while it lasts."""
        kept, self.record = self.record, None
        try:
            yield
        finally:
            self.record = kept

    def note_place(self, key: str, class_name: str = "") -> None:
        """Remember the line of the model that led here: the first frame outside instruments."""
        if key not in self.seen.places:
            self.seen.places[key] = self._made_at or line_of_model()
            self.seen.classes[key] = class_name

    def note_layer(self, name: str, settings: Mapping[str, float], layer: object) -> None:
        """Remember what a layer was built with, and where; nothing of one without settings."""
        if settings and name not in self.seen.settings:
            self.seen.settings[name], self.seen.made[name] = dict(settings), makers(layer)
            self.seen.classes.setdefault(name, type(layer).__name__)

    def note_idle(self, site: str) -> None:
        """Remember a dropout that draws nothing, since its rate is 0."""
        if self.record is not None:
            name, layer = self.prefix + self.rename(site), running_layer()
            built = [line for line, _ in makers(layer)]
            self.seen.idle.setdefault(name, built[0] if built else line_of_model())
            self.note_layer(name, {"rate": 0.0} if built else {}, layer)

    def note_computed(self, operator: str, types: Iterable[str]) -> None:
        """Remember on which types of floats an operator computed in the module that runs now."""
        module = self.prefix + self.rename(self.site_of_draw())
        said = f"{operator} {' '.join(sorted(set(types)))}"
        counts = self.seen.computed.setdefault(module, {})
        counts[said] = counts.get(said, 0) + 1


_current = Session()


def current() -> Session:
    """The session that is in use."""
    return _current


@contextmanager
def using(session: Session) -> Iterator[Session]:
    """Make `session` the current one for a while."""
    global _current
    saved, _current = _current, session
    try:
        yield session
    finally:
        _current = saved
