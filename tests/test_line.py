"""The line: the first value of a port that the reference has nowhere, and what feeds it."""

import sys

import numpy as np
import pytest
from builders import copied, ended
from checkout import ROOT

from faults.catalogue import FAULTS
from twincheck.common.line.find import Finder
from twincheck.common.line.gradients import GradientFinder
from twincheck.common.line.relations import relation
from twincheck.common.line.source import line_of
from twincheck.common.line.values import Pool, arranged_alike
from twincheck.common.logs.trace import Call, Frame, Trace
from twincheck.common.sides.python_values import PythonValues
from twincheck.common.system.reasons import Kind

RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 4, 5))
FILE = "/nowhere/model.py"
CLOSE = 1e-7


def pool(*arrays):
    return Pool(arrays, CLOSE)


class Made:
    """A trace as a test writes it down: a value and how it was made, one after another."""

    def __init__(self, file):
        self.file, self.trace = file, Trace()

    def value(self, array):
        """Keep a value that nobody is seen to make; returns its number."""
        self.trace.values.append(np.asarray(array))
        return len(self.trace.values) - 1

    def call(self, name, line, given, array, numbers=None, **options):
        """Keep a call that makes a value; returns its number."""
        number = self.value(array)
        frame = Frame(self.file, line, "forward", numbers or {})
        self.trace.calls.append(Call(name, given, [number], [frame], options))
        self.trace.maker[number] = len(self.trace.calls) - 1
        return number


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    "other",
    [A.transpose(2, 0, 1), -A, A.reshape(12, 5), np.broadcast_to(A, (2, 3, 4, 5)), A * (1 + 1e-12)],
    ids=["turned", "sign", "shape", "repeated", "rounding"],
)
def test_a_value_is_known_however_it_is_laid_out(other):
    assert arranged_alike(A, other, CLOSE) and pool(other).counterparts(A) == [0]


def test_another_order_and_another_number_are_no_counterparts():
    assert not pool(A[:, ::-1]).counterparts(A) and not pool(A * (1 + 1e-5)).counterparts(A)


def test_a_masks_number_is_no_measure_for_the_scores_beside_it():
    masked = np.where(np.arange(5) < 3, A, -1e9)
    wrong = np.where(np.arange(5) < 3, A * 1.01, -1e9)
    assert pool(masked).counterparts(masked) and not pool(masked).counterparts(wrong)


def test_parts_and_wholes_are_known():
    halves = pool(A[:, :2], A[:, 2:])
    assert halves.has_parts(A) and pool(A).has_parts(A[:, :2].copy())
    assert not halves.has_parts(A + 1)


@pytest.mark.parametrize(
    ("port", "reference", "kind"),
    [
        (A * 0.5, A, Kind.LINE_SCALED),
        (A + 2.0, A, Kind.LINE_MORE),
        (-A, A, Kind.LINE_OTHER_SIGN),
        (A > 0, A <= 0, Kind.LINE_COMPLEMENT),
        (np.roll(A, 1, 1), A, Kind.LINE_SHIFTED),
        (RNG.permutation(A.reshape(-1)).reshape(A.shape), A, Kind.LINE_OTHER_ORDER),
        (np.cos(A), np.sin(A), Kind.LINE_COSINE_FOR_SINE),
        (1 / A, A, Kind.LINE_RECIPROCAL),
        (np.where(np.arange(5) == 4, A + 1, A), A, Kind.LINE_ROWS_DIFFER),
        (RNG.normal(size=A.shape), A, None),
    ],
)
def test_how_a_value_is_wrong(port, reference, kind):
    found = relation(port, reference)
    assert (found.kind if found else None) is kind


def scores(made, scale, late):
    """Attention's weights: scaled before the product, or behind it."""
    q, k = made.value(A), made.value(A + 1)
    if late:
        product = made.call("matmul", 10, [q, k], A @ (A + 1).swapaxes(1, 2))
        scaled = made.call("__mul__", 11, [product], scale * A @ (A + 1).swapaxes(1, 2), x=scale)
    else:
        small = made.call("__mul__", 10, [q], scale * A, x=scale)
        scaled = made.call("matmul", 11, [small, k], scale * A @ (A + 1).swapaxes(1, 2))
    return made.call("softmax", 12, [scaled], softmax(scale * A @ (A + 1).swapaxes(1, 2)))


def found(reference, wrong, right, port):
    finder, right = Finder(reference.trace, port.trace, 1e-9), reference.trace.values[right]
    return line_of(finder, finder.suspect(port.trace.values[wrong], right), right)


def test_a_port_that_is_written_another_way_is_marked_where_it_is_wrong():
    reference, port = Made("ref.py"), Made(FILE)
    right, wrong = scores(reference, 0.5, late=True), scores(port, 0.5, late=False)
    values = reference.trace.values[right], port.trace.values[wrong]
    out = reference.call("sum", 13, [right], values[0].sum(-1))
    bad = port.call("sum", 13, [wrong], values[1].sum(-2))
    line = found(reference, bad, out, port)
    assert line.places["paddle"] == f"{FILE}:13" and line.places["torch"] == "ref.py:13"


def test_a_wrong_number_is_marked_and_said():
    reference, port = Made("ref.py"), Made(FILE)
    right, wrong = scores(reference, 0.5, late=True), scores(port, 0.25, late=True)
    line = found(reference, wrong, right, port)
    assert line.places["paddle"] == f"{FILE}:11"
    said = Kind.LINE_SCALED, Kind.LINE_OPTION, Kind.LINE_WORST
    assert tuple(reason.kind for reason in line.reasons) == said


def test_heads_cut_the_other_way_are_marked_where_they_are_cut():
    reference, port = Made("ref.py"), Made(FILE)
    wide, other = RNG.normal(size=(3, 7, 10)), RNG.normal(size=(3, 7, 5, 2))
    for made, sizes in ((reference, (5, 2)), (port, (2, 5))):
        cut = made.call("reshape", 4, [made.value(wide)], wide.reshape(3, 7, *sizes))
        heads = made.trace.values[cut]
        if made is port:
            heads = heads.swapaxes(2, 3)
            cut = made.call("transpose", 5, [cut], heads)
        made.call("mul", 6, [cut, made.value(other)], heads * other)
    line = found(reference, len(port.trace.values) - 1, len(reference.trace.values) - 1, port)
    assert line.places["paddle"] == f"{FILE}:4"
    assert line.reasons[0].kind is Kind.LINE_OTHER_ORDER


def loss(made, cut, weight=1.0):
    """A value that goes through one branch, cut off from the gradient maybe; returns it."""
    trace, x = made.trace, made.call("tanh", 1, [made.value(A)], np.tanh(A))
    branch = made.call("detach", 2, [x], np.tanh(A)) if cut else x
    scaled = made.call("exp", 3, [branch], np.exp(np.tanh(A)))
    made.call("mul", 4, [scaled, made.value(A + 1)], np.exp(np.tanh(A)) * (A + 1))
    trace.gradients |= {scaled + 2: np.cos(A)} | ({} if cut else {scaled: np.cos(A) * (A + 1)})
    trace.gradients |= {} if cut else {x: weight * np.cos(A) * (A + 1) * np.exp(np.tanh(A))}
    return x


@pytest.mark.parametrize(
    ("cut", "weight", "line"),
    [(True, 1.0, 2), (False, 3.0, 3)],
    ids=["cut off", "another derivative"],
)
def test_a_wrong_gradient_is_marked_where_its_value_goes_through(cut, weight, line):
    reference, port = Made("ref.py"), Made(FILE)
    right, wrong = loss(reference, False), loss(port, cut, weight)
    finder = GradientFinder(Finder(reference.trace, port.trace, 1e-9))
    gradients = port.trace.gradients.get(wrong), reference.trace.gradients[right]
    suspect = finder.suspect(port.trace.values[wrong], *gradients)
    assert suspect.call.place == f"{FILE}:{line}"
    assert suspect.how.kind is (Kind.LINE_CUTS_OFF if cut else Kind.LINE_SCALED)


SOURCE = """def scaled(x, shift=1):
    return x / (8 - shift)


class Model:
    def __init__(self, rate=0.3):
        self.rate = rate

    def forward(self, x):
        return scaled(x) * self.rate
"""


def test_a_default_is_what_feeds_the_line(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    reference, port = Made("ref.py"), Made(str(file))
    for made, shift in ((reference, 0), (port, 1)):
        x = made.value(A)
        made.call("__truediv__", 2, [x], A / (8 - shift), {"shift": shift}, y=float(8 - shift))
        made.trace.calls[-1].frames[0].function = "scaled"
        made.trace.calls[-1].frames.append(Frame(made.file, 10, "forward"))
    line = found(reference, 1, 1, port)
    assert line.places["paddle"] == f"{file}:1"
    assert str(line.reasons[1]) == "`shift` is 1 here, 0 in the reference"
    assert str(line.reasons[-1]) == "what is wrong at model.py:2 comes from here"


def test_an_attribute_is_fed_by_the_constructor_or_its_default(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    reference, port = Made("ref.py"), Made(str(file))
    for made, rate in ((reference, 0.2), (port, 0.3)):
        made.call("__mul__", 10, [made.value(A)], A * rate, {"self.rate": rate}, y=rate)
    assert found(reference, 1, 1, port).places["paddle"] == f"{file}:6"


HELPERS = """import numpy as np
def slopes_of(heads, base=2.0):
    steps = []
    for i in range(heads):
        steps.append((i + 1) / heads)
    return [base ** -step for step in steps]
def table(length):
    found = np.zeros((length, 2))
    found[:, 0] = np.arange(length)
    found[:, 1] = 1.0
    return found
def build(heads):
    kept = slopes_of(heads)
    return make(kept, table(heads))
"""


def test_what_python_computes_is_known_line_by_line(tmp_path):
    """In a loop, into a list and into an array, from function to function."""
    file, seen = tmp_path / "model.py", []
    file.write_text(HELPERS)
    values = PythonValues(lambda name: name == str(file))
    names = {"make": lambda *tables: seen.append(values.read_now(sys._getframe(1)))}
    exec(compile(HELPERS, file, "exec"), names)
    with values.heard():
        names["build"](4)
        exec(compile("table(9)", file, "exec"), names)  # as a file that is imported does
    made = {
        (one.line, i): array for one in values.made.values() for i, array in enumerate(one.arrays())
    }
    steps = np.arange(1, 5) / 4
    assert np.array_equal(made[4, 0], np.arange(4)) and np.array_equal(made[5, 0], steps)
    assert np.array_equal(made[6, 0], 2.0**-steps)
    assert not made[9, 0][:, 1].any() and np.array_equal(made[10, 0][:, 1], np.ones(4))
    assert {one.line for one in seen[0]} == {13, 11, 12}
    (returned,) = (one for one in values.made.values() if one.line == 6)
    assert 5 in {one.line for one in returned.given}


# A fault of the catalogue -> the text of the line that is marked, and what is said of it.
MARKED = {
    "alibi-slopes-one-sequence": ("steps = [(i + 1.0) / power", None),
    "fixed-positions-halves": ("table[:, : width // 2] = np.sin(", Kind.LINE_OTHER_ORDER),
    "pooled-text-largest-id": ("ids.max(axis=1, keepdim=True)", Kind.LINE_SOME_DIFFER),
    "sliding-window-one-more": ("apart <= self.window", Kind.LINE_SOME_DIFFER),
    "llama-like-epsilon": ("self.variance_epsilon = 10 * eps", Kind.LINE_FEEDS),
    "sliding-window-kinds-first": (".unbind(2)", None),
    "gradient-penalty-no-second-gradient": ("create_graph=False", None),
}


@pytest.mark.parametrize("fault", MARKED)
def test_a_red_check_marks_the_line_and_says_how_it_is_wrong(fault, checkout, tmp_path):
    (planted,) = (one for one in FAULTS if one.id == fault)
    pair = copied(ROOT / planted.model, tmp_path, (planted.old, planted.new))
    _, report = ended(1, checkout.rows(planted.step, "--model", str(pair), "--no-report"))
    text, kind = MARKED[fault]
    first = report["findings"][0]
    marked = first["paddle"]
    here = [line["text"] for line in marked["lines"] if line["number"] == marked["line"]]
    assert text in here[0]
    assert kind is None or kind.name in [reason["kind"] for reason in first["reasons"]]
