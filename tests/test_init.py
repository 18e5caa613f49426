"""Initial weights: a wrong distribution is red and named, a right one never is."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from twincheck.common.pair.request import RunRequest
from twincheck.common.sides import initial
from twincheck.common.sides.initial import MOST, initial_weights
from twincheck.common.sides.session import Session
from twincheck.common.verdict.initial import judge_initial, same_distribution

SHAPE = (48, 32)


class Side:
    """A side of NumPy alone; `draws` maps a name to a function of a generator."""

    NAME = "torch"

    class MODULE:
        """The framework's class of layers."""

    def __init__(self, draws, salt):
        self.draws, self.salt = draws, salt

    def set_up(self, dtype, device, seed):
        self.rng = np.random.default_rng((self.salt, seed))

    def modules(self, model):
        return []

    def owners(self, model):
        return {}

    def array(self, value):
        return value

    def build(self, config):
        return {name: draw(self.rng).astype(np.float32) for name, draw in self.draws.items()}


def log_of(draws, salt):
    """Return what a worker would log of such a model."""
    side = Side(draws, salt)
    run = SimpleNamespace(
        side=side,
        dtype="float32",
        request=RunRequest(),
        module=side,
        case=SimpleNamespace(config={}),
        session=Session(0),
        layout=None,
        notes={},
        start=dict,
        parameters=lambda model: list(model.items()),
        as_reference=lambda pairs: pairs,
    )
    return initial_weights(run)


def normal(std, shape=SHAPE):
    return lambda rng: rng.normal(0.0, std, shape)


def uniform(bound, shape=SHAPE):
    return lambda rng: rng.uniform(-bound, bound, shape)


def constant(value, shape=(32,)):
    return lambda rng: np.full(shape, value)


def padded(std, row=0, value=0.0):
    """An embedding with one row that is not drawn."""

    def draw(rng):
        table = rng.normal(0.0, std, (5000, 8))
        table[row] = value
        return table

    return draw


RIGHT = {
    "words": padded(0.02),
    "kernel": uniform(1 / math.sqrt(32)),
    "dense": normal(0.02),
    "bias": constant(0.0),
    "gain": constant(1.0),
    "small": uniform(0.5, (4,)),
    "single": lambda rng: rng.normal(0.0, 1.0, ()),
}
WRONG = [
    ("the framework's default for std 0.02", "dense", uniform(1 / math.sqrt(32))),
    ("another standard deviation", "dense", normal(0.025)),
    ("another mean", "dense", lambda rng: rng.normal(0.005, 0.02, SHAPE)),
    ("uniform for normal", "dense", uniform(0.02 * math.sqrt(3))),
    ("Xavier for Kaiming", "kernel", uniform(math.sqrt(6 / (32 + 48)))),
    ("drawn for zeros", "bias", uniform(0.1, (32,))),
    ("zeros for drawn", "small", constant(0.0, (4,))),
    ("ones for zeros", "bias", constant(1.0)),
    ("a small constant for zeros", "bias", constant(1e-6)),
    ("a gain that is off in one place", "gain", lambda rng: np.r_[np.ones(31), 1.01]),
    ("a row that is not zero", "words", lambda rng: rng.normal(0.0, 0.02, (5000, 8))),
    ("another row that is zero", "words", padded(0.02, row=1)),
    ("a column of zeros", "dense", lambda rng: rng.normal(0, 0.02, SHAPE) * (np.arange(32) > 0)),
    ("another constant in the row", "words", padded(0.02, value=0.01)),
    ("NaN", "dense", constant(np.nan, SHAPE)),
    ("another shape", "dense", normal(0.02, (48, 31))),
]


@pytest.fixture(scope="module")
def reference():
    return log_of(RIGHT, salt=1)


@pytest.mark.slow
def test_right_ones_are_never_red(reference):
    """20 models, 140 parameters; the p-values are spread as chance spreads them."""
    logs = (log_of(RIGHT, salt) for salt in range(100, 120))
    rows = [row for log in logs for row in judge_initial(reference, log)]
    assert len(rows) == 20 * len(RIGHT)
    assert {row.verdict for row in rows} == {"ROUNDING", "IDENTICAL"}
    drawn = [row for row in rows if "p = " in row.note]
    assert {row.key for row in drawn} == {f"init/{n}" for n in RIGHT if n not in ("bias", "gain")}


@pytest.mark.slow
@pytest.mark.parametrize("what, name, draw", WRONG, ids=[wrong[0] for wrong in WRONG])
def test_a_wrong_one_is_red_and_named(reference, what, name, draw):
    rows = judge_initial(reference, log_of(RIGHT | {name: draw}, salt=2))
    red = [row for row in rows if row.verdict not in ("ROUNDING", "IDENTICAL")]
    assert [row.key for row in red] == [f"init/{name}"]
    assert red[0].verdict in ("DIVERGED", "INVALID") and red[0].origin
    assert "torch" in red[0].note and "paddle" in red[0].note


def test_large_parameters_are_sampled_alike_on_both_sides(monkeypatch):
    monkeypatch.setattr(initial, "MAX_VALUES", 10 * MOST)
    drawn = {"bias": lambda rng: rng.normal(size=4)}  # else the model is built with given weights
    dense = {"dense": lambda rng: np.arange(1000.0)}
    logs = [log_of(dense | drawn, salt) for salt in (1, 2)]
    assert logs[0]["dense:values"].shape == (MOST, 10)
    np.testing.assert_array_equal(logs[0]["dense:values"], logs[1]["dense:values"])
    # A constant is compared beyond the sample: here only one element differs.
    other = log_of({"dense": lambda rng: np.r_[np.arange(999.0), 0.0]} | drawn, 1)
    assert judge_initial(logs[0], other)[0].verdict == "DIVERGED"


def test_how_likely_values_are_of_one_distribution_is_what_scipy_says():
    rng, shares = np.random.default_rng(0), []
    for count in (32, 64, 320):
        for shift in np.linspace(0.5, 1.5, 40) * math.sqrt(32 / count):
            a, b = rng.normal(size=(2, count)) + [[0.0], [shift]]
            if (exact := ks_2samp(a, b, method="exact").pvalue) > 1e-9:
                shares.append(same_distribution(a, b) / exact)
    assert len(shares) > 60 and 0.6 < min(shares) and max(shares) < 2.0
