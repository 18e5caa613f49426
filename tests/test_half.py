"""Half precision: its rounding, what stands in for Paddle's kernels on a CPU, and its verdict."""

from types import SimpleNamespace

import numpy as np
import paddle
import pytest
import torch
from builders import write_log

from tools.half_table import measured
from twincheck.common.sides.backend_torch import side as torch_side
from twincheck.common.sides.building import note_constants
from twincheck.common.sides.half_in_paddle import Emulation
from twincheck.common.sides.session import Session
from twincheck.common.system.half import EPSILONS, HALF, rounded
from twincheck.common.verdict.judge import judge_logs

RUNS = ("ref32", "cand32", "ref64", "cand64", "step_ref64", "step_cand64", "step_cand")


@pytest.mark.parametrize("dtype", HALF)
def test_rounding_is_the_frameworks(dtype):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(10_000) * 10.0 ** rng.integers(-45, 37, 10_000)
    special = [0.0, -0.0, 1.00390625, 1.01171875, 65519.9, 65520.0, 3.4e38, np.inf, -np.inf, np.nan]
    values = np.concatenate([values, special]).astype(np.float32)
    with np.errstate(over="ignore"):
        theirs = torch.from_numpy(values).to(getattr(torch, dtype)).float().numpy()
    ours, number = rounded(values, dtype), ~np.isnan(values)
    assert ours[number].tobytes() == theirs[number].tobytes() and np.isnan(ours[~number]).all()
    assert rounded(values.astype(np.float64), dtype).dtype == np.float64
    assert rounded(np.arange(1000), dtype).tolist() == list(range(1000))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALF)
def test_emulated_operators_are_as_exact_as_torchs_kernels(dtype):
    """Beyond 1.1 times torch's errors: a composed variance alone, whose parts are rounded."""
    found = {one.call: one for one in measured(dtype)}
    assert len(found) > 35
    assert {name for name, one in found.items() if one.worst > 1.1} <= {"a.var(-1)"}
    assert all(one.paddle < 0.4 * EPSILONS[dtype] for one in found.values())
    # Each rounds: an operator that stayed in float32 would have no error at all.
    exact = {name for name, one in found.items() if one.paddle < 0.01 * EPSILONS[dtype]}
    moved = {"a.T", "a[1:, ::2]", "p.cat([a, b])", "p.where(a > 0, a, b)"}
    assert exact == moved | {"F.relu(a)", "a.amax(-1)", "F.max_pool2d(a, 2)"}


@pytest.fixture
def emulated():
    noted = []
    with Emulation(lambda name, types: noted.append((name, *types))).on():
        yield noted


def half(*shape):
    tensor = paddle.to_tensor(np.full(shape, 1.5, np.float32)).astype("bfloat16")
    tensor.stop_gradient = False
    return tensor


def test_types_are_those_that_the_framework_gives(emulated):
    x, wide = half(2, 3), paddle.ones([2, 3])
    norm = paddle.nn.functional.layer_norm(x, 3, wide[0], wide[0])
    made = {
        "bfloat16": [x * x, x / 3, paddle.zeros([2], dtype="bfloat16"), norm],
        "float32": [x + wide, paddle.sum(x, dtype="float32")],
        "bool": [x > 0],
    }
    for dtype, values in made.items():
        assert [value.dtype for value in values] == [getattr(paddle, dtype)] * len(values), dtype
    assert ("add", "bfloat16", "float32") in emulated


def test_writing_in_place_and_gradients(emulated):
    x = half(2, 3)
    y = x * 1.0
    y[0] = 1.0 / 3.0
    y.add_(paddle.full([2, 3], 1e-3, "bfloat16"))
    assert y.dtype == paddle.bfloat16
    values = y.astype("float32").numpy()
    assert values.tobytes() == rounded(values, "bfloat16").tobytes()
    (y * y).sum().backward()
    assert x.grad.dtype == paddle.bfloat16
    gradient = x.grad.astype("float32").numpy()
    assert (gradient[0] == 0.0).all() and np.allclose(gradient[1], 2 * values[1], rtol=1e-2)


def test_mixed_precision_casts_by_the_frameworks_own_lists(emulated):
    x, weight = paddle.ones([2, 4]), paddle.ones([4, 4])
    lists = {
        "linear": "bfloat16",  # lowered
        "softmax": "float32",  # kept
        "tanh": "bfloat16",  # as it is given
        "mul": "float32",  # to the wider of two
    }
    black = ["tanh", "matmul_v2", "linear_v2"]
    for options, types in ({}, lists), ({"custom_black_list": black}, {}), ({"enable": False}, {}):
        emulated.clear()
        with paddle.amp.auto_cast(dtype="bfloat16", **options):
            y = paddle.nn.functional.linear(x, weight)
            paddle.nn.functional.softmax(y)
            paddle.tanh(y)
            y * weight[0]
        found = {name: set(types) for name, *types in emulated if name != "slice"}
        assert found == {name: {types.get(name, "float32")} for name in lists}


def test_operators_that_modules_have_by_name_are_emulated(emulated):
    """nn.MultiHeadAttention calls paddle.tensor.linalg's own `matmul`."""
    paddle.set_default_dtype("bfloat16")  # conftest.py puts the usual one back
    attention, recurrent = paddle.nn.MultiHeadAttention(8, 2), paddle.nn.LSTM(4, 4)
    assert attention(half(1, 3, 8)).dtype == paddle.bfloat16
    assert recurrent(half(1, 3, 4))[0].dtype == paddle.bfloat16


# ---- the verdict --------------------------------------------------------------------------------


def logs(more=1.0, along=0.0, rows=32, width=64, seed=0):
    """Runs in which the candidate's error is `more` times the reference's, and `along` beside it.

    along  an error that moves each vector by one factor, in the reference's standard deviations
    """
    rng = np.random.default_rng(seed)
    exact = rng.standard_normal((rows, width))
    size = 0.2 * EPSILONS["bfloat16"] * np.abs(exact)
    own, other = (size * rng.standard_normal((rows, width)) for _ in range(2))
    moved = along * 0.2 * EPSILONS["bfloat16"] * rng.standard_normal((rows, 1)) * exact
    ref, cand = exact + own, exact + more * other + moved
    arrays = dict.fromkeys(("ref64", "cand64", "step_ref64", "step_cand64"), exact)
    arrays |= {"ref32": ref.astype("f4"), "cand32": cand.astype("f4")}
    arrays["step_cand"] = arrays["cand32"]
    return {name: {"block": values} for name, values in arrays.items()}


def judged(folder, runs, computed=({}, {}), inside=False, notes=False):
    """The row of `block`, in a run in bfloat16 whose sides computed on these types."""
    paths = {name: folder / f"{name}.npy" for name in RUNS}
    for name, path in paths.items():
        told = {"dtype": "float64" if "64" in name else "bfloat16", "batches": {}}
        told |= {"computed": computed["ref" not in name], "modules": {"block": 1, "": 1}}
        write_log(path, runs[name], told | {"classes": {"block": "Linear"} if inside else {}})
    judgement = judge_logs(**paths)
    return judgement if notes else judgement.rows[0]


NARROW = ({"block": {"rsqrt float32": 1}}, {"block": {"rsqrt bfloat16": 1}})


def test_an_error_like_the_references_passes_and_a_smaller_one(tmp_path):
    for seed in range(20):
        assert judged(tmp_path, logs(seed=seed), NARROW).verdict == "ROUNDING"
    assert judged(tmp_path, logs(more=0.3)).verdict == "ROUNDING"


@pytest.mark.parametrize("more", [1.6, 2.5])
def test_a_larger_error_needs_its_cause_or_more(tmp_path, more):
    caused = judged(tmp_path, logs(more=more), NARROW)
    assert (caused.verdict, caused.origin) == ("PRECISION", True)
    assert caused.note == "rsqrt is on bfloat16 in Paddle, on float32 in torch"
    assert caused.by_itself
    alone = judged(tmp_path, logs(more=more))
    assert alone.verdict == ("PRECISION" if more > 2 else "ROUNDING")


def test_a_factor_on_whole_vectors_shows_where_the_size_hides_it(tmp_path):
    row = judged(tmp_path, logs(along=0.5), NARROW)
    assert row.verdict == "PRECISION" and row.measure.endswith("along its vectors")


NORM = "layer_norm is one operator in torch; Paddle has mean and rsqrt on bfloat16"
HELD = "its constant of 8 values holds bfloat16 in Paddle, float32 in torch"
MUL = "mul is on bfloat16 in Paddle, on float32 in torch"


@pytest.mark.parametrize(
    ("ref", "cand", "note"),
    [
        ("div float32", "div float32;div bfloat16", ""),  # one more, and none instead
        ("div float32", "div bfloat16", "div is on bfloat16 in Paddle, on float32 in torch"),
        ("layer_norm bfloat16", "mean bfloat16;rsqrt bfloat16", NORM),
        ("layer_norm bfloat16", "mean float32;rsqrt float32", ""),
        ("mul float32", "mul bfloat16 float32", MUL),
        ("constant[8] float32", "constant[8] bfloat16", HELD),
        ("constant[8] float32", "constant[4] bfloat16;constant[8] float32", ""),
    ],
)
def test_a_cause_is_what_one_side_computes_instead(tmp_path, ref, cand, note):
    computed = [{"block": dict.fromkeys(said.split(";"), 1)} for said in (ref, cand)]
    row = judged(tmp_path, logs(more=1.6), computed)
    assert (row.verdict, row.note) == ("PRECISION" if note else "ROUNDING", note)


@pytest.mark.parametrize(
    ("place", "ref", "cand", "note"),
    [
        ("block", "add bfloat16", "add float16", "at block add is on float16 in Paddle, on bfl"),
        ("", "mul float32", "mul bfloat16", "at the model itself mul is on bfloat16 in Paddle"),
        ("block", "add bfloat16", "add bfloat16", ""),
    ],
)
def test_another_type_without_a_larger_error_is_a_note(tmp_path, place, ref, cand, note):
    """Anything may stand there: a table that was rounded, a residual, a function of the model."""
    computed = [{place: {said: 1}} for said in (ref, cand)]
    judgement = judged(tmp_path, logs(), computed, notes=True)
    assert judgement.rows[0].verdict == "ROUNDING"
    told = [said for said in judgement.notes if said.startswith("no larger error for it")]
    assert len(told) == bool(note) and all(note in said for said in told)


@pytest.mark.parametrize(("way", "kind"), [("plain", "float32"), ("rounded", "bfloat16"),
                                           ("cast", "bfloat16"), ("kept", "bfloat16")])  # fmt: skip
def test_a_table_that_was_rounded_when_it_was_made_is_seen_in_what_holds_it(way, kind):
    """A later cast changes nothing; a mask of 0 and 1 is exact, and one number says nothing."""

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            table = 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16)
            table = table if way == "plain" else table.bfloat16()
            self.register_buffer("one", torch.tensor(0.3))
            if way == "kept":
                self.table = table
            else:
                self.register_buffer("table", table.float() if way == "rounded" else table)

    model = torch.nn.ModuleDict({"rotary": Rotary(), "norm": torch.nn.LayerNorm(8)})
    session = Session(3)
    run = SimpleNamespace(side=torch_side, session=session, prefix="main/", dtype="bfloat16")
    note_constants(run, model)
    assert session.seen.computed == {"main/rotary": {f"constant[8] {kind}": 1}}
    run.dtype, run.session = "float32", Session(3)
    note_constants(run, model)
    assert run.session.seen.computed == {}


def test_what_float32_makes_is_no_half_precision(tmp_path):
    runs = logs(more=4.0)
    for name, like in (("ref32", "ref64"), ("step_cand", "step_cand64")):
        exact = runs[like]["block"]
        runs[name] = {"block": (exact + (runs[name]["block"] - exact) * 1e-4).astype("f4")}
    assert judged(tmp_path, runs, NARROW).verdict in ("ROUNDING", "IDENTICAL")


@pytest.mark.parametrize("inside", [True, False])
def test_a_value_that_the_reference_does_not_round_may_be_rounded_inside_alone(tmp_path, inside):
    runs = logs()
    exact = runs["ref64"]["block"]
    runs["ref32"] = {"block": exact.astype("f4")}
    runs["cand32"] = runs["step_cand"] = {"block": rounded(exact, "bfloat16").astype("f4")}
    row = judged(tmp_path, runs, inside=inside)
    assert row.verdict == ("ROUNDING" if inside else "PRECISION")


def test_another_function_and_infinities_are_not_taken_for_half_precision(tmp_path):
    runs = logs()
    off = {"block": runs["ref64"]["block"] * (1 + 1e-6)}
    assert judged(tmp_path, runs | {"cand64": off}).verdict == "DIVERGED"
    infinite = runs["step_cand"]["block"].copy()
    infinite[3, 4] = np.inf
    assert judged(tmp_path, runs | {"step_cand": {"block": infinite}}).note.endswith(
        "where torch's has none"
    )
