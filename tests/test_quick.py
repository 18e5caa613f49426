"""What built-in Paddle models compute the quick way, and that nobody else's do."""

import numpy as np
import paddle
import pytest
from builders import ended
from paddle import nn
from paddle.nn import functional as F

from twincheck.common.sides import quick_in_paddle
from twincheck.common.sides.session import current

PLACES = {"linear": (F, "linear"), "layer_norm": (nn.LayerNorm, "forward")}
PLACES["log_softmax"] = (F, "log_softmax")
ROWS, WIDTH, CLASSES = 4096, 8, 16


@pytest.fixture
def quick():
    current().begin()
    own = {name: getattr(*place) for name, place in PLACES.items()}
    quick_in_paddle.make_quick(True)
    yield own
    quick_in_paddle.make_quick(False)
    assert all(getattr(*PLACES[name]) is function for name, function in own.items())


def gradients(name, dtype="float32", x=None):
    """Return what an operator gives, and the gradients of all that it takes, as arrays."""
    rng = np.random.default_rng(0)
    shapes = {"linear": [(ROWS, WIDTH), (WIDTH, CLASSES), (CLASSES,)]}
    shapes["layer_norm"] = [(2, ROWS // 2, CLASSES), (CLASSES,), (CLASSES,)]
    shapes["log_softmax"] = [(ROWS, CLASSES)]
    values = [rng.normal(size=shape) for shape in shapes[name]] if x is None else [x]
    inputs = [paddle.to_tensor(value.astype(dtype), stop_gradient=False) for value in values]
    if name == "layer_norm":
        layer = nn.LayerNorm(CLASSES, epsilon=1e-3)
        del layer.weight, layer.bias
        layer.weight, layer.bias = inputs[1:]
        result = layer(inputs[0])
    else:
        result = getattr(F, name)(*inputs)
    result.backward(paddle.to_tensor(rng.normal(size=result.shape).astype(dtype)))
    return [result.numpy(), *(value.grad.numpy() for value in inputs)]


@pytest.mark.parametrize("name", PLACES)
def test_the_quick_way_says_the_same(quick, name):
    assert getattr(*PLACES[name]) is not quick[name]
    found = gradients(name, "float64")
    quick_in_paddle.make_quick(False)
    for ours, own in zip(found, gradients(name, "float64"), strict=True):
        np.testing.assert_allclose(ours, own, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", PLACES)
def test_where_a_probe_looks_the_operator_is_paddles_own(quick, name, monkeypatch):
    calls = []

    def own(*given, **named):
        calls.append(current().probing)
        return quick[name](*given, **named)

    quick_in_paddle.make_quick(False)
    monkeypatch.setattr(*PLACES[name], own)
    quick_in_paddle.make_quick(True)
    gradients(name)
    assert not calls
    monkeypatch.setattr(current(), "probing", True)
    gradients(name)
    assert calls == [True]


def test_logits_far_below_the_largest_are_not_cut_off(quick):
    logits = np.array([[0.0, 200.0], [0.0, -np.inf]])
    result, gradient = gradients("log_softmax", x=logits)
    np.testing.assert_array_equal(result, [[-200.0, 0.0], [0.0, -np.inf]])
    assert np.isfinite(gradient).all()


FROZEN = [["x"], ["weight"], ["bias"], ["x", "weight"], ["weight", "bias"]]


@pytest.mark.parametrize("frozen", FROZEN, ids="-".join)
@pytest.mark.parametrize("kind", [nn.Linear, nn.LayerNorm])
def test_what_is_frozen_gets_no_gradient(quick, kind, frozen):
    layer = kind(*([4, 4] if kind is nn.Linear else [4]))
    inputs = {"x": paddle.randn([3, 4]), "weight": layer.weight, "bias": layer.bias}
    for name, value in inputs.items():
        value.stop_gradient = name in frozen
    layer(inputs["x"]).sum().backward()
    assert {name for name, value in inputs.items() if value.grad is None} == set(frozen)


@pytest.mark.slow
def test_a_users_pair_is_computed_as_paddle_does(checkout, pair, tmp_path):
    """In a process that has answered for a built-in one before."""
    told = tmp_path / "told"
    with open(pair / "paddle_model.py", "a") as file:
        file.write("\n_build = build\n\n\ndef build(config):\n")
        file.write("    views = paddle.get_flags('FLAGS_use_stride_kernel')\n")
        file.write(f"    with open({str(told)!r}, 'a') as file:\n")
        file.write("        name = F.linear.__code__.co_filename\n")
        file.write("        file.write(f'{name} {list(views.values())}\\n')\n")
        file.write("    return _build(config)\n")
    models = ("--model", "fast_transformer", "--model", str(pair))
    ended(0, checkout.check(1, *models, "--no-report", "--no-probe"))
    lines = set(told.read_text().splitlines())
    assert len(lines) == 1 and "intercept" not in (line := lines.pop()) and "[True]" in line
