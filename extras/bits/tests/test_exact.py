"""Bits: orders of a sum are found again, MD5s are read and compared, and the command says which."""

import json
import shutil

import numpy as np
import pytest
from builders import twincheck
from checkout import ROOT

from twincheck.common.system.errors import UserError
from twincheck.extras.bits import md5
from twincheck.extras.bits.exact import KERNEL, ORDER, sample_of
from twincheck.extras.bits.orders import Sums, find, gradients_of, norms, orders, sampled, ways_of

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# ---- orders -------------------------------------------------------------------------------------


def added(terms, order):
    """The sums of terms (E, K), one element after another in Python."""
    total = np.zeros(len(terms), np.float32)
    for place in order:
        total = total + terms[:, place]
    return total


def test_two_orders_of_one_sum_are_told_apart():
    terms = floats(40, 37)
    lanes = [added(terms[:, lane:36:4], range(9)) for lane in range(4)]
    in_lanes = added(np.stack(lanes, 1), range(4))
    results = [added(terms, range(37)), in_lanes + terms[:, 36]]
    found = find(orders(Sums(terms)), results)
    assert [each.share for each in found] == [1.0, 1.0]
    assert found[0].said == "one after another"
    assert found[1].said == "in 4 lanes, these one after another"


def test_a_product_that_is_added_in_one_rounding_is_told_from_one_that_is_rounded_first():
    a, b = floats(60, 24), floats(60, 24)
    fused, rounded = (np.zeros(60, np.float32) for _ in range(2))
    for place in range(24):
        exact = a[:, place].astype(np.float64) * b[:, place]
        fused = (exact + fused).astype(np.float32)
        rounded = rounded + a[:, place] * b[:, place]
    found = find(orders(Sums(a, b)), [fused, rounded])
    assert [each.share for each in found] == [1.0, 1.0]
    assert found[0].said == "one after another, multiplied and added in one rounding"
    assert found[1].said == "one after another"


def test_the_bias_first_is_told_from_the_bias_last():
    x, weight, bias = floats(16, 12), floats(12, 9), 100 * floats(9)
    first, last = (np.broadcast_to(bias, (16, 9)).copy(), np.zeros((16, 9), np.float32))
    for place in range(12):
        product = x[:, place, None].astype(np.float64) * weight[place]
        first, last = ((product + total).astype(np.float32) for total in (first, last))
    named = {"x": {"tensor": 0}, "weight": {"tensor": 1}, "bias": {"tensor": 2}}
    ways = ways_of("linear", named, [x, weight, bias])
    rows = np.arange(16 * 9)
    found = find(ways(rows), [first.ravel(), (last + bias).ravel()])
    assert [each.share for each in found] == [1.0, 1.0]
    assert "the bias first" in found[0].said and "the bias last" in found[1].said


def test_the_edge_of_a_product_may_be_added_in_another_order():
    terms = floats(100, 24)
    result = added(terms, range(24))
    result[64:] = added(terms[64:], range(23, -1, -1))
    found = find(orders(Sums(terms)), [result])[0]
    assert found.share == 1.0
    share = (result == added(terms, range(24))).mean()
    assert found.said == (
        f"one after another ({share:.0%} of the elements); the others from the last to the first"
    )
    result[64:] = np.nextafter(result[64:], np.float32(np.inf))
    assert find(orders(Sums(terms)), [result])[0].share < 1.0


@pytest.mark.parametrize(
    "strided", [{"stride": [1], "dilation": [1]}, {"stride": [2], "dilation": [2]}]
)
def test_a_convolution_by_channels_is_told_from_one_by_places(strided):
    x, weight, bias = floats(2, 3, 20), floats(5, 3, 4), floats(5)
    step, apart = strided["stride"][0], strided["dilation"][0]
    whole = np.pad(x, [(0, 0), (0, 0), (1, 1)])
    length = (22 - 3 * apart - 1) // step + 1
    results = []
    for places in (
        [(c, k) for c in range(3) for k in range(4)],
        [(c, k) for k in range(4) for c in range(3)],
    ):
        total = np.zeros((2, 5, length), np.float32)
        for c, k in places:
            taken = whole[:, c, k * apart :: step][:, :length].astype(np.float64)
            total = (taken[:, None] * weight[:, c, k, None] + total).astype(np.float32)
        results.append((total + bias[:, None]).ravel())
    named = {"x": {"tensor": 0}, "weight": {"tensor": 1}, "bias": {"tensor": 2}}
    named |= {**strided, "padding": 1, "groups": 1}
    ways = ways_of("conv", named, [x, weight, bias])
    found = find(ways(np.arange(results[0].size)), results)
    end = "one after another, multiplied and added in one rounding, the bias last"
    assert [each.said for each in found] == [
        f"channel by channel {end}",
        f"by the kernel's places {end}",
    ]
    assert [each.share for each in found] == [1.0, 1.0]


def test_a_result_that_is_no_sum_in_any_order_is_not_explained():
    terms = floats(64, 20)
    off = np.nextafter(added(terms, range(20)), np.float32(np.inf))
    found = find(orders(Sums(terms)), [off])
    assert found[0].share < 1.0


@pytest.mark.parametrize("width", [16, 64, 192])
def test_a_layer_norm_of_welford_is_told_from_one_of_two_passes(width):
    x, weight, bias = floats(12, width), floats(width), floats(width)
    ways = dict(norms(x, weight, bias, 1e-5))
    two_passes = next(v for said, v in ways.items() if said.startswith("mean, then variance"))
    welford = next(v for said, v in ways.items() if said.startswith("Welford"))
    assert not np.array_equal(two_passes, welford)
    true = (x - x.mean(1, keepdims=True, dtype=np.float64)) / np.sqrt(
        x.astype(np.float64).var(1, keepdims=True) + 1e-5
    ) * weight + bias
    for said, values in ways.items():
        assert np.abs(values - true).max() < 2e-5, said
    found = find(norms(x, weight, bias, 1e-5), [welford, two_passes])
    assert [each.share for each in found] == [1.0, 1.0]


@pytest.mark.parametrize("operator", ["linear", "matmul"])
def test_gradients_of_products_are_sums_of_what_they_should_be(operator):
    x, y, given = floats(7, 5), floats(5, 3), floats(7, 3)
    second = "weight" if operator == "linear" else "y"
    named = {"x": {"tensor": 0}, second: {"tensor": 1}}
    ways = gradients_of(operator, named, [x, y], given)
    for name, true in (("x", given @ y.T), (second, x.T @ given)):
        for said, values in ways[name](np.arange(true.size)):
            assert np.allclose(values, true.ravel(), atol=1e-5), (name, said)


def test_means_and_axes():
    x = floats(3, 8, 4)
    for operator, axis in (("sum", 1), ("mean", [0, 2]), ("mean", None), ("sum", -1)):
        true = getattr(np, operator)(x, tuple(axis) if isinstance(axis, list) else axis)
        named = {"x": {"tensor": 0}, "axis": axis, "keepdim": False}
        for said, values in ways_of(operator, named, [x])(np.arange(np.size(true))):
            assert np.allclose(values, np.ravel(true), atol=1e-5), (operator, axis, said)


def test_what_differs_is_sampled_first_and_in_whole_groups():
    torch = floats(3000)
    paddle = torch.copy()
    paddle[[17, 2990]] += 1
    assert set(sampled(torch, paddle)[:2]) == {17, 2990}
    rows = sampled(torch, paddle, 10)
    assert rows[:20].tolist() == [*range(10, 20), *range(2990, 3000)]
    assert rows.size % 10 == 0


def a_sample(folder, operator, named, torch, paddle, exact, *inputs):
    told = {"operator": operator, "entry": "differed", "number": 3, "module": "m", "place": ""}
    (folder / "s.json").write_text(json.dumps({**told, "wanted": [], "arguments": named}))
    arrays = {f"in_{i}": value for i, value in enumerate(inputs)}
    np.savez(folder / "s.npz", torch_0=torch, paddle_0=paddle, exact_0=exact, **arrays)
    return sample_of(folder / "s.json")


def test_an_operators_sample_is_an_order_or_a_kernel(tmp_path):
    x = floats(50, 24)
    named, exact = {"x": {"tensor": 0}, "axis": 1}, x.astype(np.float64).sum(1)
    turns, back = added(x, range(24)), added(x, range(23, -1, -1))
    found = a_sample(tmp_path, "sum", named, turns, back, exact, x)
    assert found.kind == ORDER
    assert found.how == "torch: one after another. Paddle: from the last to the first"
    odd = np.nextafter(back, np.float32(0))
    found = a_sample(tmp_path, "sum", named, turns, odd, exact, x)
    assert found.kind == KERNEL and "torch: one after another. Paddle: " in found.how
    found = a_sample(tmp_path, "exp", {"x": {"tensor": 0}}, x, np.nextafter(x, x + 1), x, x)
    said = "torch rounds 100% of the elements as float64 does, Paddle 0%"
    assert (found.kind, found.how) == (KERNEL, said)


# ---- MD5 ----------------------------------------------------------------------------------------


def a_log(tmp_path, name, gradients, loss=0.5, steps=3):
    lines = []
    for step in range(1, steps + 1):
        lines += md5.lines(step, np.float32(loss), gradients.items())
    path = tmp_path / name
    path.write_text("\n".join(lines))
    return md5.read(path)


def test_what_is_written_is_read_and_equal(tmp_path):
    gradients = {"a": floats(2, 3), "b": floats(4)}
    logs = [a_log(tmp_path, name, gradients) for name in ("t", "p")]
    assert logs[0] == logs[1] and len(logs[0]) == 9
    assert [mark.step for mark in logs[0] if mark.name == "final_loss"] == [1, 2, 3]
    assert md5.compare(*logs) == md5.Compared(None, 9, 0, 0)


def test_the_first_tensor_that_differs_is_named(tmp_path):
    gradients = {"a": floats(2, 3), "b": floats(4)}
    moved = {**gradients, "b": np.nextafter(gradients["b"], np.float32(9))}
    logs = a_log(tmp_path, "t", gradients), a_log(tmp_path, "p", moved)
    compared = md5.compare(*logs)
    assert (compared.first[0].step, compared.first[0].name) == (1, "b")
    assert (compared.equal, compared.differing) == (6, 3)


def test_lines_of_paddlefleets_alignment_are_read(tmp_path):
    path = tmp_path / "workerlog.0"
    path.write_text(
        "[INFO] per_token_loss: rank=0 shape=[1, 50] md5=0123456789abcdef0123456789abcdef\n"
        "x final_loss: rank=0 val=8.997344 md5=fedcba9876543210fedcba9876543210 final_loss: "
        "rank=1 val=8.9 md5=00000000000000000000000000000000\n"
        "final_loss: rank=0 val=8.5 md5=11111111111111111111111111111111\n"
    )
    found = md5.read(path)
    assert [mark.key for mark in found] == [
        (1, "per_token_loss", 0),
        (1, "final_loss", 0),
        (1, "final_loss", 1),
        (2, "final_loss", 0),
    ]
    assert found[1].value == "8.997344"


def test_a_log_without_marks_is_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("loss: 0.5\n")
    with pytest.raises(UserError, match="no line of it has `final_loss: rank=N"):
        md5.read(path)


# ---- the command --------------------------------------------------------------------------------


def test_two_logs_are_compared_by_the_command(tmp_path):
    gradients = {"a": floats(2, 3)}
    a_log(tmp_path, "t", gradients), a_log(tmp_path, "same", gradients)
    a_log(tmp_path, "p", gradients, loss=0.25, steps=2)
    same = twincheck("exact", "--torch-md5", tmp_path / "t", "--paddle-md5", tmp_path / "same")
    assert "all 6 losses and gradients that both have are the same bits" in same
    words = "exact", "--torch-md5", tmp_path / "t", "--paddle-md5", tmp_path / "p"
    off = twincheck(*words, status=1)
    assert "2 of 4 losses and gradients are the same bits" in off
    assert "the first that differs: final_loss of step 1, 0.5 and 0.25, MD5" in off
    alone = twincheck("exact", "--torch-md5", tmp_path / "t", status=2)
    assert "give both sides' logs" in alone


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """What the command finds of the example, whose port is right."""
    pair = tmp_path_factory.mktemp("exact") / "a port" / "classifier"
    shutil.copytree(ROOT / "examples" / "text_classifier", pair)
    said = twincheck("exact", pair.name, "--steps", "3", status=1, folder=pair.parent)
    return (
        said,
        json.loads((pair / "log" / "exact" / "classifier" / "exact.json").read_text()),
        pair,
    )


@pytest.mark.slow
def test_every_operator_is_in_the_table(classifier):
    said, told, _ = classifier
    rows = {row["operator"]: row for row in told["operators"]}
    assert {"linear", "layer_norm", "embedding", "gelu", "add"} <= set(rows)
    assert rows["add"]["kind"] == rows["embedding"]["kind"] == "equal"
    for row in rows.values():
        assert row["calls"] or row["kind"] == "not compared"
        assert (row["kind"] in ("equal", "not compared")) == (row["differed"] == 0), row
        assert row["kind"] in ("equal", "another order", "another kernel", "not compared")
        assert row["operator"] in said
    assert told["steps"]["1"]["differing"] and told["steps"]["4"]["differing"]


@pytest.mark.slow
def test_the_first_operator_that_differs_is_named_with_its_module_and_line(classifier):
    said, told, pair = classifier
    first = told["first"]
    line = (
        (pair / "paddle_model.py").read_text().splitlines()[int(first["place"].split(":")[-1]) - 1]
    )
    assert first["module"] and line.strip()
    assert f"the first that differs: {first['operator']} in {first['module']} at " in said


@pytest.mark.slow
def test_the_training_steps_are_written_as_md5(classifier):
    said, told, pair = classifier
    files = [pair / "log" / "exact" / "classifier" / f"{side}.md5" for side in ("torch", "paddle")]
    marks = [md5.read(path) for path in files]
    keys = [{mark.key for mark in of} for of in marks]
    assert keys[0] == keys[1] and len(keys[0]) == len(marks[0]) > 3
    assert {mark.step for mark in marks[0]} == {1, 2, 3}
    assert told["training"]["first"]["step"] == 1 and "3 training steps: " in said


@pytest.mark.slow
def test_a_planted_factor_is_found_in_bits(tmp_path):
    """A port that multiplies by what float32 rounds to 1 has equal bits; by more, it has not."""
    said = {}
    for name, factor in (("equal", "(1.0 + 1e-9)"), ("off", "(1.0 + 1e-6)")):
        folder = tmp_path / name
        folder.mkdir()
        for side in ("torch", "paddle"):
            base = "torch.nn.Module" if side == "torch" else "paddle.nn.Layer"
            scaled = "x * 1.0" if side == "torch" else f"x * {factor}"
            (folder / f"{side}_model.py").write_text(
                f"import {side}\n\n\nclass Net({base}):\n    def forward(self, x):\n"
                f"        return {scaled}\n\n\ndef build(config):\n    return Net()\n"
            )
        (folder / "case.py").write_text(
            "import numpy as np\n\nCONFIGS = {'default': {}}\n\n\ndef make_inputs(config, seed):\n"
            "    rng = np.random.default_rng(seed)\n"
            "    return {'x': rng.normal(size=(4, 8)).astype('float32')}\n"
        )
        said[name] = twincheck("exact", folder, status=int(name == "off"))
    assert "2 of 2 values have the same bits in float32" in said["equal"]
    assert "no operator differs by itself" in said["equal"]
    assert "0 of 2 values have the same bits in float32; the first that differs: " in said["off"]
    assert "no operator differs by itself" in said["off"]
