"""Paddle's operators that are inexact in float64: their table, and the formulas that lift them."""

import tomllib

import numpy as np
import paddle
import pytest
import torch
from torch.nn import functional as T

from tools import operators as measuring
from tools.operators import CALLS, MATRIX, OPERATORS, differences_of
from twincheck.common.sides import backend_paddle, backend_torch
from twincheck.common.system.intercept import Intercept
from twincheck.common.system.json_file import load_json
from twincheck.common.transplant import exact as exact_operators
from twincheck.common.transplant.formulas import FORMULAS
from twincheck.common.verdict.operators import TABLE, table

P = paddle.nn.functional
WAYS = tomllib.loads(CALLS.read_text(encoding="utf-8"))["way"]
EXACT = 1e-13
# Paddle's own, of every BatchNorm in training.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")
COMPUTED = [operator for operator in OPERATORS if operator.excuses]


@pytest.fixture(scope="module")
def process():
    """This process's operators, with the formulas in reach."""
    made = exact_operators.Exact(lambda: "here")
    made.way.put()
    return made


@pytest.fixture
def upcast(process):
    process.begin("upcast")
    yield process
    process.begin("off")


# ---- the table ----------------------------------------------------------------------------------


def test_the_table_is_what_the_installed_versions_do():
    """A few of them; `python -m tools.operators` measures all."""
    content = load_json(TABLE)
    names = ["layer_norm", "selu", "batch_norm", "hardsigmoid", "interpolate"]
    for name, line in measuring.measure(names).items():
        known = content["operators"][name]
        assert list(line.pop("classes")) == known.pop("classes")
        for of in ("value", "gradient"):
            assert line.pop(of) == pytest.approx(known.pop(of), rel=1e-2)
        assert line == known
    assert content["versions"]["paddle"] == paddle.__version__


def test_every_operator_that_excuses_has_a_formula_and_one_more_that_is_only_wrong():
    known = set(FORMULAS) - {"group_norm"}
    assert {operator.name for operator in COMPUTED} == known
    assert {name for name, line in table().items() if line.excuses} == known


# ---- the formulas -------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", COMPUTED, ids=lambda operator: operator.name)
def test_a_formula_gives_torchs_value_and_gradient(upcast, operator):
    """An operator that is off by the table is not, once the formula computes it."""
    assert max(operator.measure()) < EXACT
    upcast.begin("off")
    assert max(operator.measure()) > EXACT


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way['name']} {way['form']}")
def test_an_operator_called_in_another_way(upcast, way):
    given = way["given"], way["torch"], way["paddle"]
    assert max(differences_of(*given)) < EXACT
    upcast.begin("watch")
    assert max(differences_of(*given)) > EXACT
    assert upcast.noted["inexact"]["here"].keys() == {way["name"]} and not upcast.noted["wrong"]


POWERS = {
    "1d": ("F.lp_pool1d(x[0], 2.0, 3, 2)", "F.lp_pool1d(x[0], 2.0, 3, 2)"),
    "2d": ("F.lp_pool2d(x, 3.3, (2, 3))", "F.lp_pool2d(x, 3.3, [2, 3])"),
    "of a size that is not covered": (
        "F.pad(x, (1, 1)).abs().pow(3).unfold(-1, 3, 3).sum(-1).pow(1 / 3)",
        "F.lp_pool2d(x, 3.0, [1, 3], padding=[0, 1], data_format='NCHW')",
    ),
}


@pytest.mark.parametrize("way", POWERS)
def test_powers_are_pooled_in_float64_in_every_float64_run(way):
    """Paddle's own results are float32 values, from which no run goes on exactly."""
    given = {"x": "np.abs(IMAGES)"}
    assert max(differences_of(given, *POWERS[way])) > EXACT
    own = paddle._C_ops.lp_pool2d
    with Intercept(paddle, {"_C_ops.lp_pool2d": backend_paddle._lp_pool}):
        assert max(differences_of(given, *POWERS[way])) < EXACT
    assert paddle._C_ops.lp_pool2d is own


def test_torchs_gradient_of_digamma_is_exact_in_a_float64_run():
    """Of negative numbers too; and the gradient of that gradient."""
    digamma = {"x": "POSITIVE"}, "digamma(x)"
    off = differences_of(*digamma, other="p.digamma(x)")[1]
    x = torch.tensor([-0.3, 0.3, 2.5, -7.5], dtype=torch.float64, requires_grad=True)
    with Intercept(torch, {"digamma": backend_torch._digamma}):
        assert differences_of(*digamma, other="p.digamma(x)")[1] < EXACT < off
        assert torch.autograd.gradgradcheck(torch.digamma, x)
        slopes = torch.autograd.grad(torch.digamma(x).sum(), x)[0].numpy()
    reflected = (np.pi / np.sin(np.pi * x.detach().numpy())) ** 2  # of x and 1 - x together
    others = torch.special.zeta(2, 1.0 - x).detach().numpy()
    np.testing.assert_allclose(slopes + others, reflected, rtol=1e-13)


@pytest.mark.parametrize("name", ["exp", "sigmoid"])
def test_what_is_inexact_of_complex_numbers_alone_is_paddles_own_of_real_ones(upcast, name):
    x = paddle.to_tensor(MATRIX)
    found = getattr(paddle, name)(x).numpy()
    assert upcast.noted["inexact"] == {}
    upcast.begin("off")
    assert (getattr(paddle, name)(x).numpy() == found).all()


MASKED = np.array([[0.0, -1e4, -709.0, -1.0], [3.0, 1.0, -1e9, 2.0]])


def test_a_masked_score_has_no_part_in_a_softmax(upcast):
    """To an exact 0, as in torch."""
    found = []
    for framework, tensor in ((T, torch.tensor), (P, paddle.to_tensor)):
        x = tensor(MASKED)
        x.requires_grad, x.stop_gradient = True, False
        y = framework.softmax(x, -1)
        y[:, 0].sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    for torchs, paddles in zip(*found, strict=True):
        np.testing.assert_allclose(paddles, torchs, rtol=1e-14, atol=1e-300)
        assert paddles[0, 1] == paddles[1, 2] == torchs[0, 1] == torchs[1, 2] == 0.0


def test_a_softmax_of_what_is_not_finite_is_as_torchs():
    values = np.array([[0.0, -np.inf, 1.0], [np.nan, 0.0, 1.0], [-np.inf] * 3])
    found = FORMULAS["softmax"](paddle.to_tensor(values), -1).numpy()
    np.testing.assert_allclose(found, T.softmax(torch.tensor(values), -1).numpy(), rtol=1e-14)


def test_other_runs_are_untouched(process):
    """float32, and any run that watches: Paddle's own bits; what watches notes how far they are."""
    x = paddle.to_tensor(MATRIX)
    own = {name: function(x).numpy() for name, function in BY_NAME.items()}
    small = {name: function(x.astype("float32")).numpy() for name, function in BY_NAME.items()}
    process.begin("upcast")
    for name, function in BY_NAME.items():
        assert (function(x.astype("float32")).numpy() == small[name]).all()
        assert (function(x).numpy() != own[name]).any()
    process.begin("watch")
    for name, function in BY_NAME.items():
        assert (function(x).numpy() == own[name]).all()
    assert process.noted["inexact"]["here"].keys() == BY_NAME.keys()
    assert all(1e-12 < off < 1e-6 for off in process.noted["inexact"]["here"].values())
    process.begin("off")
    for name, function in BY_NAME.items():
        assert (function(x).numpy() == own[name]).all()
    assert process.noted["inexact"] == {}


ONES = np.ones(10)
BY_NAME = {
    "selu": lambda x: P.selu(x),
    "layer_norm": lambda x: P.layer_norm(x, [10], epsilon=1e-3),
    "batch_norm": lambda x: P.batch_norm(
        x, *(paddle.to_tensor(v).astype(x.dtype) for v in (0 * ONES, ONES, ONES, ONES)), True, 0.99
    ),
}


def _relu_behind(num_channels):
    """As paddle.vision's DenseNet has it: the older layer, with an activation of its own."""
    return paddle.nn.BatchNorm(num_channels, act="relu", dtype="float64")


@pytest.mark.parametrize("build", [paddle.nn.BatchNorm1D, _relu_behind])
def test_running_statistics_are_moved_once_and_exactly(upcast, build):
    """Two updates: they add up as they do with a momentum that is 0.9."""
    paddle.set_default_dtype("float64")
    try:
        norm = build(10)
        values = np.zeros(10)
        for part in (MATRIX, 3.0 * MATRIX + 1.0):
            result = norm(paddle.to_tensor(part)).numpy()
            values = 0.9 * values + 0.1 * part.mean(axis=0)
    finally:
        paddle.set_default_dtype("float32")
    assert np.abs(norm._mean.numpy() - values).max() < 1e-15
    normal = (part - part.mean(axis=0)) / np.sqrt(part.var(axis=0) + 1e-5)
    wanted = np.maximum(normal, 0) if build is _relu_behind else normal
    assert np.abs(result - wanted).max() < 1e-12


# ---- operators that are wrong --------------------------------------------------------------------


def test_what_constants_do_not_explain_stays(upcast):
    """The gradient of a frozen LayerNorm's input, where all that its epsilon makes is taken out."""
    given = {"x": "normal(4, 6)", "w": "normal(6)"}
    calls = "F.layer_norm(x, (6,), w, eps=1e-3)", "F.layer_norm(x, [6], w, epsilon=1e-3)"
    value, gradient = differences_of(given, *calls)
    assert value < EXACT and gradient > 0.1
    upcast.begin("watch")
    differences_of(given, *calls)
    assert upcast.noted["wrong"]["here"]["layer_norm"]["gradient"] == pytest.approx(
        gradient, rel=0.9
    )
    assert 1e-12 < upcast.noted["inexact"]["here"]["layer_norm"] < 1e-9
    upcast.begin("watch")
    x, w = (paddle.to_tensor(values, stop_gradient=False) for values in (MATRIX, MATRIX[0]))
    y = P.layer_norm(x, [10], w, epsilon=1e-3)
    assert not upcast.noted["wrong"]  # a trained weight
    paddle.grad(y.sum(), x)  # whose gradient is not asked for
    assert upcast.noted["wrong"]["here"].keys() == {"layer_norm"}
