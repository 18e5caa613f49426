"""What a log's rows come to together: where it starts, what was only passed on, what is shown.

Each row is a function of its own arrays (comparisons.py); here they are read in the order in which
they were computed, once.  The first that is off is an origin.  Behind it a row takes its verdict
from the run that is fed with the reference's values, so that what was only passed on is CARRIED
and every origin is found.  What is CONSTANT is shown by a further run.  Reads no tensor.
"""

from dataclasses import dataclass, field

from twincheck.common.logs.key import Key, parent_code
from twincheck.common.logs.of_a_run import class_of
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.causes import explain
from twincheck.common.verdict.comparisons import OWN, Comparisons
from twincheck.common.verdict.needs import Need
from twincheck.common.verdict.operators import Operators, of_class, table, told
from twincheck.common.verdict.origins import Streams
from twincheck.common.verdict.row import (
    AGREEING,
    FAILING,
    FED,
    NO_STEP,
    NOT_FED,
    OF_CONSTANTS,
    OF_OPERATORS,
    SHAPES,
    Row,
)

_SEEN = {FED: Kind.ON_REFERENCE, NOT_FED: Kind.NOT_FED}


@dataclass
class _Case:
    """The state of one case, by its rows so far: cases are runs of their own."""

    modules: set[str]
    off: bool = False  # whether a row is off already
    failing: bool = False  # whether one does not pass
    failing_setups: set[str] = field(default_factory=set)  # on given gradients


class Settling:
    """Settles row after row, each key once, in their order.

    strict  what is inside a model decides too
    """

    def __init__(self, comparisons: Comparisons, strict: bool):
        self.needs: dict[str, Need] = {}  # the run with exact operators, where it would show more
        self._rows = comparisons
        self._logs = comparisons.logs
        self._strict = strict
        self._streams = Streams()
        self._operators = Operators(self._logs)
        self._cases: dict[str, _Case] = {}

    def row(self, key: Key) -> Row:
        """Return the next row, with its cause where one is known."""
        row, case = self._rows.row(OWN, key), self._case_of(key)
        not_in_float64 = "ref64" not in self._logs or not row.in_float64
        if case.off:
            row = self._localised(key, row)
        elif row.verdict not in AGREEING and not (row.verdict == "CLOSE" and not_in_float64):
            row.origin = row.verdict != "CLOSE"
            case.off = True
            if row.verdict in FAILING:
                self._came_around(key)  # the first of its kind
        if Kind.CLIPPED_LOSS not in row.excuses:
            row = self._proven(row, key)
        if row.origin and row.verdict in FAILING and str(key) not in self._logs.not_forced:
            case.failing = True
        row.add(explain(row, key, self._logs, self._rows.clipped))
        return row

    def _case_of(self, key: Key) -> _Case:
        if key.case not in self._cases:
            probed = self._logs.sidecars["ref32"].modules
            names = {name[len(key.case) :] for name in probed if name.startswith(key.case)}
            self._cases[key.case] = _Case(names)
        return self._cases[key.case]

    # ---- rows after one that is off -------------------------------------------------------------

    def _localised(self, key: Key, row: Row) -> Row:
        """A row after one that is off: by the reference's values, if such a log is there."""
        if "teacher_forced" not in self._logs or row.verdict == "PRECISION" and not key.is_step:
            return row  # PRECISION: the gap is rounding's although something above is off
        fed = self._rows.row("fed", key)
        if fed is None and key.is_step:
            return self._step_not_forced(key, row)
        if fed is None or row.verdict == "PRECISION":
            return row
        if row.verdict == "FLIP":
            row.origin = True
            return row  # rounding decided here, whatever is off above
        if fed.verdict in AGREEING:
            if row.verdict not in AGREEING:
                return row.decided("CARRIED", Kind.RIGHT_ON_REFERENCE(), excuses=(), fed=FED)
            return row
        if row.verdict in AGREEING and not self._strict:
            return row  # what it was fed may mean something else inside this side's model
        if key.is_own_pass and fed.verdict != "CONSTANT" and self._case_of(key).failing:
            return row  # the whole model at the reference's weights: what is off above is off here
        # NaN may have been brought; another shape is the module's own.
        unlike = row.unlike == SHAPES and row.inside and not self._strict
        failing = fed.verdict in FAILING and row.verdict in FAILING
        if failing and not unlike and self._came_around(key):
            return row.decided("CARRIED", Kind.CODE_AROUND())
        fed.origin = True
        for name in ("mean_abs", "max_abs", "inside", "difference", "guide_passed", "noise_cand"):
            setattr(fed, name, getattr(row, name))
        fed.fed = FED if self._logs.was_forced(key) else NOT_FED
        fed.reasons = tuple(dict.fromkeys((*fed.reasons, *row.reasons, _SEEN[fed.fed]())))
        fed.in_float64, fed.shows_nothing = row.in_float64, row.shows_nothing
        return fed

    def _step_not_forced(self, key: Key, row: Row) -> Row:
        """A row of a large model's optimizer step, which is not run again on fed values.

        What is off in the model comes back in every step that runs it.  A set-up on given gradients
        runs nothing, and starts from the same weights: what is off there starts there.
        """
        case = self._case_of(key)
        setup = key.run.partition("/")[0]
        given = self._logs.sidecars["ref32"].given_gradients.get(key.case_name, {})
        if row.verdict not in FAILING:
            return row
        if setup in given.get("setups", ()):
            row.origin = setup not in case.failing_setups
            case.failing_setups.add(setup)
        elif case.failing:
            return row.decided("CARRIED", Kind.NO_SINGLE_STEP(), excuses=(), fed=NO_STEP)
        return row

    def _came_around(self, key: Key) -> bool:
        """True where the parent's code was off before, and this is the same once more."""
        parent = parent_code(key, self._case_of(key).modules)
        if parent is None or "teacher_forced" not in self._logs:
            return False
        return self._streams.explains(key, parent, self._rows.sketch(key))

    # ---- what is shown to be the framework's -----------------------------------------------------

    def _proven(self, row: Row, key: Key) -> Row:
        """Excuse a difference that is an operator's, and none that only could be."""
        constant = row.verdict == "CONSTANT"
        origin = row.verdict == "DIVERGED" and row.origin
        if row.gap is None or row.verdict not in ("CONSTANT", "DIVERGED", "CARRIED"):
            return row
        shown, why, proof = self._shown(row, key) if constant or origin else (False, [], "")
        if not shown:
            rounded = self._rows.row("rounded", key)
            if rounded is not None and rounded.verdict in AGREEING:
                shown, why, proof = True, [Kind.CONSTANTS_ROUNDED()], OF_CONSTANTS
        if shown:
            return row.decided("CONSTANT", *why, excuses=(Kind.OPERATOR,), proof=proof)
        if constant or origin:
            why = self._operators.wrong_at(key) or why
        if constant:
            return row.decided("DIVERGED", *(why or [Kind.CONSTANT_NOT_SHOWN()]), excuses=())
        row.add(*why)
        return row

    def _shown(self, row: Row, key: Key) -> tuple[bool, list[Reason], str]:
        """Return whether an operator is shown to be the cause, reasons for it, and the proof."""
        if "teacher_forced" not in self._logs:  # nor could it be: its layer is all that is known
            operator = of_class(self._layer(key)) if row.verdict == "CONSTANT" else None
            return operator is not None, [operator.sentence] if operator else [], ""
        found = self._operators.of_case(key)
        if not found:
            return False, [], ""
        if "exact" not in self._logs:
            scale = self._rows.scales.get(key.group, 0.0)
            if self._operators.could_be(row, key, scale):
                self.needs.setdefault("exact", Need(row.key))
            return False, [], ""
        exact = self._rows.row("exact", key)
        if exact is None:
            return False, [], ""
        causes = self._operators.nearest(key)
        if exact.verdict in AGREEING:
            excused = all(table()[name].excuses for name in causes)
            return excused, [told(causes), Kind.NOTHING_LEFT()], OF_OPERATORS
        if exact.gap is None or exact.gap > row.gap / 2:
            return False, [], ""  # most of it is left: they have no part in it worth a word
        return False, [told(causes), Kind.SOME_LEFT(gap=exact.gap)], ""

    def _layer(self, key: Key) -> str:
        """The class of Paddle's that made a row; empty where its epsilon is not torch's."""
        sidecars = self._logs.sidecars
        name = key.case + key.site.partition("/")[0]
        built = [sidecars[side].settings.get(name, {}) for side in ("ref32", "cand32")]
        if built[0].get("epsilon") != built[1].get("epsilon"):
            return ""
        return class_of(key, sidecars["cand64"].classes or sidecars["cand32"].classes)
