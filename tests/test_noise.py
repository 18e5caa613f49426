"""The measured noise: what rounding makes of the reference, and what the rule makes of that."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import RUNS, write_log
from torch.nn import functional as F

from twincheck.common.logs.noise import SEEDS, SIZES, distance, distances
from twincheck.common.logs.of_a_run import AGAIN
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import read_sidecar, write_sidecar
from twincheck.common.pair.task import Noise
from twincheck.common.sides.noise_in_torch import BLOCK, Moved, measure
from twincheck.common.sides.run import beside
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.context import Context
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.tensor import judge_tensor
from twincheck.common.verdict.tolerances import tolerance

SINGLE, DOUBLE = SIZES

# ---- operators, moved ---------------------------------------------------------------------------

_index = torch.arange(500) % 10
OPERATORS = {
    "matmul": (lambda x: x @ x.T, (16, 800)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 3, 90, 16)),
    "conv2d": (lambda x: F.conv2d(x, x[:6, :, :3, :3]), (8, 60, 7, 9)),
    "layer_norm": (lambda x: F.layer_norm(x, (900,)), (7, 900)),
    "group_norm": (lambda x: F.group_norm(x, 3), (4, 12, 11, 13)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (8, 6, 11, 13)),
    "softmax far": (lambda x: F.softmax(30 * x, -1), (8, 90)),
    "log_softmax far": (lambda x: F.log_softmax(30 * x, -1), (8, 90)),
    "logsumexp": (lambda x: x.logsumexp(-1), (6, 5000)),
    "cumsum": (lambda x: x.cumsum(-1), (3, 3000)),
    "cumprod": (lambda x: (1 + 0.05 * x).cumprod(-1), (3, 200)),
    "mean": (lambda x: (x + 3).mean(), (100_000,)),
    "var far from 0": (lambda x: (x + 100).var(-1), (5, 900)),
    "fft": (lambda x: torch.fft.rfft(x).abs(), (5, 700)),
    "inverse": (lambda x: torch.linalg.inv(x), (3, 14, 14)),
    "solve": (lambda x: torch.linalg.solve(x[..., :11], x[..., 11:]), (3, 11, 15)),
    "segment sums": (lambda x: x.new_zeros(10, 30).index_add(0, _index, x), (500, 30)),
    "normalize": (lambda x: F.normalize(x, dim=-1), (5, 900)),
    "sine of 1000": (lambda x: (1000 * x).sin(), (5, 900)),
    "power": (lambda x: x.abs() ** 2.7, (5, 900)),
    "gelu's tail": (lambda x: F.gelu(x.abs().clamp(0, 3) - 9), (5, 900)),
    "tanh gelu's tail": (lambda x: F.gelu(x.abs().clamp(0, 3) - 7, approximate="tanh"), (5, 900)),
    "a batch of one vector": (lambda x: F.silu(x).sum(-1), (1, 40)),
}


def of_operator(function, shape, dtype, seed=0):
    """Return what an operator makes, and the gradient that comes back, as float64 arrays."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    x.requires_grad_()
    made = function(x)
    weights = torch.linspace(-1, 1, made.numel(), dtype=torch.float64).cos().reshape(made.shape)
    (made * weights.to(dtype)).sum().backward()
    return {"y": made.detach().double().numpy(), "grad": x.grad.double().numpy()}


def noise_of(run, size, seeds=4):
    """Name -> (root mean square, maximum) of how far moves bring what `run` makes."""
    plain, found = run(), {}
    for seed in range(seeds):
        with Moved(seed, size):
            moved = run()
        for key, off in distances(plain, moved, {}):
            found[key] = np.maximum(found.get(key, 0.0), off)
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_no_operator_is_less_exact_in_float32_than_it_is_measured_to_be(name):
    function, shape = OPERATORS[name]
    noise = noise_of(lambda: of_operator(function, shape, torch.float64), SINGLE)
    plain = of_operator(function, shape, torch.float64)
    single = of_operator(function, shape, torch.float32)
    for key, off in distances(plain, single, {}):
        factor = tolerance("precision") * (2 if plain[key].size == 1 else 1)
        assert (off <= factor * noise[key]).all(), (key, off / noise[key])
        assert noise[key][0] < 1e3 * off[0] + 1e-7, "and it is no more than that by far"


def test_moves_are_drawn_by_their_seed_and_leave_float32_and_copies_alone():
    x = torch.randn(5, 6, dtype=torch.float64)
    with Moved(3, SINGLE):
        one = x * 2.0
    with Moved(3, SINGLE):
        same = x * 2.0
        kept = [x.T, x.clone(), x.relu(), torch.cat([x, x]), x.float() * 2.0, x.argmax()]
    assert torch.equal(one, same) and not torch.equal(one, x * 2.0)
    large = torch.randn(5, BLOCK // 4, dtype=torch.float64)  # moved in blocks where it can be
    with Moved(3, SINGLE):
        contiguous = large * 2.0
    with Moved(3, SINGLE):
        assert torch.equal(contiguous.T, large.T * 2.0)
    plain = [x.T, x.clone(), x.relu(), torch.cat([x, x]), x.float() * 2.0, x.argmax()]
    assert all(map(torch.equal, kept, plain))
    with Moved(3, SINGLE):  # as torch keeps them without computing
        assert (torch.conj(torch.complex(x, x)).imag * 2.0 != -2.0 * x).any()
        assert (x.to_sparse() * 2.0).is_sparse
    moved = Moved(3, SINGLE)
    moved.still = True
    with moved:
        assert torch.equal(x * 2.0, one - one + x * 2.0)


@pytest.mark.parametrize("size", SIZES)
def test_a_mask_stays_a_mask(size):
    """1 - 1.0 is 0, not a rounding times the lowest float; and all of its fill is one number."""
    mask = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    scores = torch.randn(5, 4, dtype=torch.float64)
    added = (1.0 - mask) * torch.finfo(torch.float32).min
    plain = F.softmax(scores + added, -1)
    with Moved(1, size):
        added = (1.0 - mask) * torch.finfo(torch.float32).min
        moved = F.softmax(scores + added, -1)
        none = F.softmax(scores + torch.full((4,), -1e30, dtype=torch.float64), -1)
    assert torch.allclose(plain, moved, rtol=20 * size, atol=0) and moved[:, 2].max() == 0
    assert torch.allclose(none, torch.full_like(none, 0.25), rtol=20 * size, atol=0)


def test_the_largest_value_stays_one_of_its_values():
    """Its gradient goes where it equals a value: moved, it would equal none, and NaN come back."""
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    with Moved(0, SINGLE):
        (2.0 * x).amax(-1).sum().backward()
    assert (x.grad != 0).sum() == 4 and torch.isfinite(x.grad).all()


def test_running_statistics_move_on_while_operators_are_moved():
    norm, x = torch.nn.BatchNorm1d(6).double(), torch.randn(9, 6, dtype=torch.float64)
    other = copy.deepcopy(norm)
    norm(x)
    with Moved(0, SINGLE):
        other(x)
    assert torch.allclose(norm.running_var, other.running_var, rtol=1e-6, atol=0)
    assert not torch.equal(norm.running_mean, torch.zeros(6))


def test_of_an_exact_zero_that_a_transform_leaves_the_transforms_noise_is_known():
    """The imaginary part at frequency 0: exactly 0 in one library, rounding in another."""
    x = torch.randn(7, 30, dtype=torch.float64)
    with Moved(0, SINGLE):
        assert torch.fft.rfft(x)[:, 0].imag.abs().max() > 0


# ---- distances ----------------------------------------------------------------------------------


def test_a_distance_is_measured_whole_and_for_each_sample():
    plain = np.zeros((2, 3))
    values = np.array([[3.0, 0.0, 0.0], [0.0, -4.0, 0.0]])
    expected = [np.sqrt(25 / 6), 4.0, np.sqrt(3), np.sqrt(16 / 3), 3.0, 4.0]
    assert np.allclose(distance(values, plain, 2), expected)
    assert np.allclose(distance(values * 1e-200, plain, 2), np.multiply(expected, 1e-200))
    assert np.allclose(distance(values, plain, 1), expected[:2])
    infinite = np.where(values > 0, np.inf, values)
    assert np.allclose(distance(infinite, infinite, 1), 0.0)


def test_what_rounding_makes_no_number_of_is_measured_on_the_others_or_not_at_all():
    plain, values = np.zeros((2, 3)), np.array([[3.0, np.nan, 0.0], [np.nan, np.inf, np.nan]])
    found = distance(values, plain, 2)
    assert np.allclose(found[:3], [np.sqrt(4.5), 3.0, np.sqrt(4.5)]) and found[4] == 3.0
    assert np.isnan(found[[3, 5]]).all()


def test_a_mask_of_the_lowest_float64_is_moved_to_no_infinity():
    """A row that is wholly masked would be NaN in each moved run, and in no run of float32."""
    lowest = torch.full((2, 5), torch.finfo(torch.float64).min, dtype=torch.float64)
    with Moved(0, SINGLE):
        made = (lowest * 1.0).softmax(-1)
    assert torch.allclose(made, torch.full_like(made, 0.2), rtol=1e-6)


class Folder:
    """A job's logs as `measure` asks for them."""

    def __init__(self, folder):
        self.folder = folder

    def log(self, stem, side, run):
        return self.folder / f"{run}.npy"


def test_a_moment_that_is_no_number_in_one_moved_run_is_measured_by_the_others(tmp_path):
    """And that it is none in one of them is counted, which a check says."""
    files, runs = Folder(tmp_path), []

    def write(run, dtype, moved):
        runs.append(moved)
        values = [1.0, np.nan if len(runs) == 2 else 2.0 + 1e-7, 3.0]
        write_log(files.log("x", "torch", run), {"m": values, "ever": [np.nan]}, told)

    told = {"batches": {"": None}}
    write_log(files.log("x", "torch", RunKind.FLOAT64), {"m": [1.0, 2.0, 3.0], "ever": [1.0]}, told)
    for further in (False, True):
        measure(SimpleNamespace(files=files, stem="x"), Noise(further=further), write)
    with read_log(files.log("x", "torch", RunKind.NOISE)) as log:
        assert np.allclose(log["m"][:, 1], 1e-7) and np.isnan(log["ever"]).all()
    assert read_sidecar(files.log("x", "torch", RunKind.NOISE)).lost == {"m": 1, "ever": sum(SEEDS)}


def test_distances_are_of_floats_that_both_runs_have_in_one_shape():
    plain = {"a/x": np.ones((2, 3)), "a/n": np.arange(3), "b/x": np.ones(2), "c": np.ones(0)}
    moved = {"a/x": np.ones((2, 3)) + 1e-3, "b/x": np.ones(3), "c": np.ones(0)}
    found = dict(distances(plain, moved, {"a/": 2, "b/": 2}))
    assert list(found) == ["a/x"] and found["a/x"].size == 6


# ---- the rule, with it --------------------------------------------------------------------------

NOISE, ROUNDED = 1e-5, 1e-14  # of a tensor of size 1 in float32, and in float64


def four(noise_ref=NOISE, noise_cand=NOISE, gap=0.0, lucky=(), lost=0.0):
    """A tensor of four samples in each run; `lucky` ones are exact, and the last has lost some."""
    rng = np.random.default_rng(0)
    exact, one, two, other = rng.standard_normal((4, 4, 30))
    ref, cand = exact + noise_ref * one, exact + gap * other + noise_cand * two
    ref[list(lucky)] = exact[list(lucky)]
    cand[3] += lost
    return [ref, cand, exact, exact + gap * other]


def measured(single=NOISE, double=ROUNDED, samples=4):
    return np.outer(
        [single, double], np.concatenate([[1.0, 3.0], [1.0] * samples, [3.0] * samples])
    )


def verdict(arrays, noise=None, **more):
    row = judge_tensor("x", *arrays, Context(batch=4, noise=noise, **more))
    return row.verdict, row.excuse


LUCKY = {"noise_ref": 1e-9}  # the reference is exact, by luck
LUCKY_GAP = {"noise_ref": 1e-13, "noise_cand": 1e-13, "gap": 2e-12}
# The four runs, what was measured, what else is known; the verdict, and whether the noise decided.
RULED = [
    ({}, measured(), {}, "ROUNDING", False),  # the plain rule does
    (LUCKY, None, {}, "PRECISION", False),
    (LUCKY, measured(), {}, "ROUNDING", True),
    (LUCKY, measured(samples=0), {}, "ROUNDING", True),  # of other samples than are judged
    ({"lucky": (2,)}, None, {}, "PRECISION", False),  # in one sample alone
    ({"lucky": (2,)}, measured(), {}, "ROUNDING", True),
    *(({"noise_cand": lost}, measured(), {}, "PRECISION", False) for lost in (1e-2, 3e-4)),  # half
    *(({"lost": lost}, measured(), {}, "PRECISION", False) for lost in (1e-2, 3e-4)),
    # A gap is rounding's up to a few times what float64 makes.
    (LUCKY_GAP, None, {}, "CONSTANT", False),
    (LUCKY_GAP, measured(double=1e-12), {}, "ROUNDING", True),
    (LUCKY_GAP | {"gap": 2e-11}, measured(double=1e-12), {}, "CONSTANT", False),
    # Noise that does not shrink with the moves is none: something else than rounding was moved.
    # Steps of an optimizer may be whole ones of any.
    (LUCKY, measured(double=NOISE), {}, "PRECISION", False),
    ({"gap": 1e-7}, measured(double=NOISE), {}, "CONSTANT", False),
    ({"gap": 1e-7}, measured(double=NOISE), {"stepped": True}, "ROUNDING", True),
]


@pytest.mark.parametrize(("runs", "noise", "known", "wanted", "by_noise"), RULED)
def test_what_the_rule_makes_of_the_measured_noise(runs, noise, known, wanted, by_noise):
    assert verdict(four(**runs), noise, **known) == (wanted, "measured noise" * by_noise)


@pytest.mark.parametrize("nothing", [np.nan, np.inf])
def test_noise_that_is_no_number_neither_passes_nor_fails_a_row(nothing):
    lost = measured()
    lost[:, :2] = nothing
    for noise, stepped in ((lost, True), (lost, False), (measured(nothing, nothing), True)):
        assert verdict(four(), noise, stepped=stepped) == ("ROUNDING", "")
        for off, wanted in (({"noise_cand": 1e-2}, "PRECISION"), ({"gap": 1e-2}, "DIVERGED")):
            row = judge_tensor("x", *four(**off), Context(noise=noise, stepped=stepped))
            assert row.verdict == wanted and np.isfinite(row.allowed)


def test_that_rounding_alone_makes_a_value_nan_is_said_of_what_it_leaves_in_doubt(tmp_path):
    paths = logs(tmp_path, four(noise_ref=1e-9), measured())
    write_sidecar(paths["noise"], replace(read_sidecar(paths["noise"]), lost={"main/y": 1}))
    judged = judge_logs(**paths)
    assert judged.exit_code == 0
    assert any("rounding alone makes some of torch's values NaN" in note for note in judged.notes)


def test_a_single_value_may_be_twice_as_far():
    one = [np.array([1.0 + 1e-12]), np.array([1.0 + 3e-5]), np.array([1.0]), np.array([1.0])]
    noise = np.array([[1e-6] * 2, [1e-15] * 2])
    assert judge_tensor("x", *one, Context(noise=noise)).verdict == "ROUNDING"
    one[1] += 5e-6
    assert judge_tensor("x", *one, Context(noise=noise)).verdict == "PRECISION"


# ---- a repeated run -----------------------------------------------------------------------------


def test_luck_does_not_repeat_and_a_lost_precision_does():
    """A value that is far off in the candidate's float32, and what it is in repeated runs."""
    arrays = four()
    arrays[1][1, 5] += 1.0
    draws = np.random.default_rng(9).standard_normal((3, *arrays[3].shape))
    runs = [arrays[3] + NOISE * drawn for drawn in draws]
    broken = [np.full_like(runs[0], np.nan), *runs[1:]]  # which shows nothing
    coarse = [run + 1e-2 for run in runs]
    for again, wanted in (
        (None, ("PRECISION", "")),
        (runs, ("ROUNDING", "a repeated run")),
        (broken, ("ROUNDING", "a repeated run")),
        (broken[:1], ("PRECISION", "")),
        (coarse, ("PRECISION", "")),
    ):
        more = {} if again is None else {"again": lambda again=again: again}
        assert verdict(arrays, measured(), **more) == wanted


def test_a_repeated_run_starts_beside_this_one_and_leaves_flags_alone():
    values = np.array([0.1, -2.5, 0.0, 1.0, -np.inf, 3e-5], np.float32)
    assert beside(values, "x", 0) is values
    ids = np.arange(4)
    assert beside(ids, "x", 1) is ids
    runs = [beside(values, name, again) for name in ("x", "y") for again in (1, 2, 3)]
    assert len({run.tobytes() for run in runs}) > 3
    for run in runs:
        assert (run[2:5] == values[2:5]).all() and run.dtype == np.float32
        finite = np.isfinite(values)
        off = np.abs(run[finite] - values[finite])
        assert (off <= np.spacing(np.abs(values[finite]))).all()


# ---- in whole logs ------------------------------------------------------------------------------


def logs(tmp_path, arrays, noise=None, key="main/y", moved=None, again=0):
    """Logs of one tensor, of which the candidate's float32 run came to the same `again` times."""
    arrays = [values.astype(np.float32) for values in arrays[:2]] + list(arrays[2:])
    paths, told = {}, {"batches": {"main/": 4}}
    for name, values in zip((*RUNS, "noise"), (*arrays, noise), strict=True):
        if values is not None:
            paths[name] = tmp_path / f"{name}.npy"
            more = {"moved": moved or {}} if name == "noise" else {"side": "torch"}
            write_log(paths[name], {key: values}, told | more)
    for name in AGAIN[:again]:
        paths[name] = tmp_path / f"{name}.npy"
        write_log(paths[name], {key: arrays[1]}, told)
    return paths


def needed(judgement):
    """The passes that are to be repeated, and those whose noise is to be measured."""
    needs = judgement.needs
    return tuple(needs[run].passes if run in needs else () for run in ("again", "noise"))


def test_a_case_in_doubt_asks_for_a_repeated_run_then_for_the_noise(tmp_path):
    lucky, main = four(noise_ref=1e-9), (("main", ""),)
    for again, wanted in ((0, (main, ())), (1, (main, ())), (3, ((), main))):
        asked = judge_logs(**logs(tmp_path, lucky, again=again))
        assert needed(asked) == wanted and asked.exit_code == 1
        assert any("how far rounding moves them was not measured" in note for note in asked.notes)
    settled = judge_logs(**logs(tmp_path, lucky, measured()))
    assert needed(settled)[1] == () and settled.exit_code == 0
    assert needed(judge_logs(**logs(tmp_path, four())))[1] == ()


def test_a_pass_is_asked_for_until_all_runs_of_it_are_there(tmp_path):
    """By itself: what an optimizer's steps leave needs no run of the other set-ups."""
    key, arrays, sgd = "main/sgd/003/grad/w", four(noise_cand=1e-2), (("main", "sgd"),)
    assert needed(judge_logs(**logs(tmp_path, arrays, key=key))) == (sgd, ())
    for runs, of_noise in ((1, sgd), (SEEDS[0], ())):
        found = judge_logs(**logs(tmp_path, arrays, measured(), key, {"main/sgd": runs}, 3))
        assert found.exit_code == 1 and needed(found) == ((), of_noise)
        assert not any("was not measured" in note for note in found.notes)


def test_half_precision_is_neither_measured_so_nor_repeated_in_float32(tmp_path):
    paths = logs(tmp_path, four(noise_cand=1.0))
    for path in paths.values():
        told = read_sidecar(path)
        write_sidecar(path, replace(told, dtype="bfloat16"))
    asked = judge_logs(**paths)
    assert asked.exit_code == 1 and needed(asked) == ((), ())


# ---- a clipped loss -----------------------------------------------------------------------------


def clipped_loss(tmp_path, paddles, inexact, off=0.3):
    """The row of a loss of 84 in three runs, and of another value in Paddle's float32 run."""
    paths = {}
    for name, loss in (dict.fromkeys(RUNS, 84.2) | {"cand32": paddles}).items():
        paths[name] = tmp_path / f"{name}.npy"
        told = {"main/": {inexact: off}} if name == "cand64" else {}
        value = np.asarray(loss, np.float32 if name.endswith("32") else np.float64)
        write_log(paths[name], {"main/loss": value}, {"batches": {"main/": 2}, "inexact": told})
    return judge_logs(**paths).rows[0]


def test_a_loss_that_paddle_clips_in_float32_alone_is_paddles(tmp_path):
    """The float64 run of a large model computes cross_entropy exactly; the float32 run clips it."""
    nearly = (84.2 - 64.03) / 84.2  # of 64.02999878: the float32 loss is rounded too
    row = clipped_loss(tmp_path, 64.01, "cross_entropy")
    assert row.verdict == "CONSTANT" and "more than 64 below" in row.note
    for loss, operator, off, wanted in (
        (64.03, "cross_entropy", nearly, "CONSTANT"),
        (84.9, "cross_entropy", 0.3, "PRECISION"),
        (64.01, "avg_pool", 0.3, "PRECISION"),
        (64.01, "cross_entropy", 0.2, "PRECISION"),  # makes less
    ):
        assert clipped_loss(tmp_path, loss, operator, off).verdict == wanted
