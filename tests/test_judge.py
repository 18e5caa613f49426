"""Whole logs: cases apart from each other, what noise moves, and what a constant carries."""

import json

import numpy as np
import pytest
from builders import RUNS, four, write_log

from twincheck.common.logs.noise import distance
from twincheck.common.report.sentences import decided
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.comparisons import Memo
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.operators import adam_noise
from twincheck.common.verdict.row import FED, NOT_FED, Row, exit_code, first_bad_row

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((4, 6))


def pair(values, change=0.0, noise=6e-8):
    """ref32, cand32, ref64, cand64 of one tensor; the candidate's is `change` off, relatively."""
    return four(RNG, values, values * (1 + change), noise)


class Logs:
    """Logs of a step, written row by row, each with a teacher-forced value."""

    def __init__(self, folder):
        self.folder = folder
        self.rows = {}
        self.noise = {}  # key -> measured noise
        self.entries = {}
        self.of_side = {}  # log -> entries of its own sidecar

    def add(self, key, four, local=None, exact=None):
        """One tensor; `local` is the candidate's on the reference's input (default: right).

        `exact` is that with Paddle's inexact operators computed exactly (default: right).
        """
        local, exact = (four[2] if value is None else value for value in (local, exact))
        self.rows[key] = (*four, local, exact)

    def judge(self, count=6):
        """The rows by key; `count` 4: there are no teacher-forced runs."""
        names = (*RUNS, "teacher_forced", "exact")[:count]
        paths = {}
        for i, name in enumerate(names):
            paths[name] = self.folder / f"{name}.npy"
            arrays = {k: row[i] for k, row in self.rows.items() if row[i] is not None}
            write_log(paths[name], arrays, self.entries | self.of_side.get(name, {}))
        if self.noise:
            paths["noise"] = self.folder / "noise.npy"
            write_log(paths["noise"], self.noise, self.entries)
        judgement = judge_logs(**paths)
        json.dumps(judgement.as_json(), allow_nan=False)
        self.compare_with_stages(paths, judgement)
        return {row.key: row for row in judgement.rows}

    def compare_with_stages(self, paths, judgement):
        """Judged log by log, as a red check does, the rows and what is asked for are the same."""
        memo = Memo()
        settled = ("ref32", "cand32", "ref64", "cand64", "noise")
        first = {name: paths[name] for name in settled if name in paths}
        judge_logs(**first, obtainable=("teacher_forced",), memo=memo)
        if "teacher_forced" in paths:
            local = first | {"teacher_forced": paths["teacher_forced"]}
            alone = judge_logs(**local)
            staged = judge_logs(**local, obtainable=("exact",), memo=memo)
            assert ("exact" in staged.needs) == ("exact" in alone.needs)
        for free in (
            None,
            paths.get("teacher_forced"),
        ):  # what comes last is only looked at in the end
            staged = judge_logs(**paths, free=free, memo=memo)
            assert staged.as_json() == judge_logs(**paths, free=free).as_json()
            lacking = set() if free is None else {"free"}
            assert set(staged.needs) == set(judgement.needs) - lacking


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)


def test_a_case_knows_nothing_of_another(logs):
    """A constant in one case lets nothing of another pass as carried."""
    logs.entries = {"batches": {"a/": 4, "b/": 4}, "inexact": {"a/x": {"selu": 3e-8}}}
    logs.add("a/x", pair(VALUES, 1e-8), VALUES * (1 + 1e-8))
    logs.add("a/y", pair(VALUES, 1e-5))
    logs.add("b/y", pair(VALUES, 1e-5))
    rows = logs.judge()
    assert [rows[key].verdict for key in rows] == ["CONSTANT", "CARRIED", "DIVERGED"]
    assert rows["b/y"].origin and not rows["a/y"].origin
    said = [decided(rows[key]).partition(":")[0] for key in rows]
    assert said == ["proven", "proven", "plain"] and ", of the framework" in decided(rows["a/x"])


def test_a_second_nan_is_an_origin_of_its_own(logs):
    bad = [array.copy() for array in pair(VALUES)]
    bad[1][0, 0] = bad[3][0, 0] = np.nan
    logs.add("x", bad, bad[3])
    logs.add("carried", bad)
    logs.add("again", bad, bad[3])
    rows = logs.judge()
    assert [rows[key].verdict for key in rows] == ["INVALID", "CARRIED", "INVALID"]
    assert rows["again"].origin


def test_steps_of_a_model_with_a_constant_carry_what_it_makes(logs):
    """Right with exact operators, they are the constant's; wrong without it too, they are wrong."""
    off = VALUES * (1 + 1e-6)
    for exact, verdict in ((None, "CONSTANT"), (off, "DIVERGED")):
        logs.rows.clear()
        logs.entries = {"inexact": {"x": {"selu": 3e-8}}}
        logs.add("x", pair(VALUES, 1e-8), VALUES * (1 + 1e-8))
        logs.add("adam/003/grad/a", pair(VALUES, 1e-6), off, exact)
        row = logs.judge()["adam/003/grad/a"]
        assert row.verdict == verdict and row.origin


def test_an_operator_that_is_wrong_is_named_where_it_is_and_excuses_nothing(logs):
    """Its module has an inexact constant too, which leaves most of the difference."""
    logs.entries = {
        "inexact": {"norm": {"layer_norm": 2e-12}},
        "wrong": {"norm": {"layer_norm": {"gradient": 0.46}}},
    }
    off = VALUES * (1 + 1e-2)
    logs.add("norm", pair(VALUES))
    logs.add("grad_of/head", pair(VALUES, 1e-6), VALUES * (1 + 1e-6), VALUES * (1 + 1e-6))
    logs.add("grad_of/norm:in/0", pair(VALUES, 1e-2), off, off)
    logs.add("adam/001/grad/a", pair(VALUES, 1e-2))
    rows = logs.judge()
    assert [row.verdict for row in rows.values()][2:] == ["DIVERGED", "CARRIED"]
    said = "Paddle's layer_norm computes another gradient here than its definition, by 4.6e-01 of"
    assert said in rows["grad_of/norm:in/0"].note and "layer_norm" not in rows["grad_of/head"].note


def test_what_is_off_after_a_step_comes_behind_where_a_probe_saw_it_start():
    """A weight that starts as 1 hides it from the first case till a step has changed that."""
    late = [Row(f"main/adam/001/{kind}/a", "DIVERGED", origin=True) for kind in ("grad", "weight")]
    seen = Row("perturbed/grad_of/norm:in/0", "DIVERGED", origin=True)
    assert first_bad_row([late[0], seen]) is seen and first_bad_row([late[0]]) is late[0]
    assert first_bad_row([late[1], seen]) is late[1]  # an optimizer's own doing


def test_an_order_of_its_own_comes_behind_a_value_that_was_fed():
    turned = Row("main/a", "DIVERGED", excuses=(Kind.OTHER_ORDER,), origin=True)
    blind, seen = (Row(f"main/{fed}", "DIVERGED", origin=True, fed=fed) for fed in (NOT_FED, FED))
    assert first_bad_row([turned, blind, seen]) is seen
    assert first_bad_row([turned, blind]) is turned


def test_steps_on_given_gradients_start_where_they_are_off(logs):
    """A large model's steps are not run on fed values; those on given gradients run no model."""
    logs.entries = {"given_gradients": {"main": {"values": 2_000_000, "setups": ["adam"]}}}
    logs.add("y", pair(VALUES, 1e-5), VALUES * (1 + 1e-5))
    for key in ("adam/000/weight/a", "adam/001/weight/a", "sgd/000/weight/a"):
        logs.rows[key] = (*pair(VALUES, 1e-3), None, None)
    rows = logs.judge()
    assert [key for key, row in rows.items() if row.origin] == ["y", "adam/000/weight/a"]
    assert [row.verdict for row in rows.values()] == ["DIVERGED"] * 3 + ["CARRIED"]


# ---- what Adam makes of a gradient's noise -------------------------------------------------------

SIZE, LR = 24, 1e-3
KINDS = ("f4", "f4", "f8", "f8")


def adam(gradients, epsilon=1e-8):
    """Weights and moments after each step from zeros, in the gradients' precision."""
    kind = gradients[0].dtype
    weight = np.zeros(SIZE, kind)
    moment1, moment2 = np.zeros(SIZE, kind), np.zeros(SIZE, kind)
    for step, gradient in enumerate(gradients, 1):
        moment1 = (0.9 * moment1 + 0.1 * gradient).astype(kind)
        moment2 = (0.999 * moment2 + 0.001 * gradient**2).astype(kind)
        scale = np.sqrt(moment2 / (1 - 0.999**step)) + epsilon
        weight = weight - LR * (moment1 / (1 - 0.9**step)) / scale
        yield weight.astype(kind), moment1, moment2


def moved_steps(exact, noise, rng):
    """Step, kind and measured noise of what right steps make of gradients that are so noisy."""
    plain = list(adam(exact))
    for step in range(3):
        for place, kind in enumerate(("weight", "moment1", "moment2")):
            found = [[], []]
            for size, many, to in ((noise, 4, 0), (8e-9 * noise, 2, 1)):
                for _ in range(many):
                    moved = list(adam([g + size * rng.normal(size=SIZE) for g in exact]))
                    found[to].append(distance(moved[step][place], plain[step][place], 1))
            yield step, kind, np.stack([np.maximum.reduce(each) for each in found])


def steps_of_adam(
    logs, tiny=slice(0, 2), size=1e-9, noise=(1e-9, 2e-8), change=None, by_chance=(), **fault
):
    """Three steps of a parameter some of whose gradients are tiny; the weight's rows.

    noise    of the two sides' gradients in float32; in float64 both have 1e-9 of that
    change   (weights of the candidate in float64, step) -> what is logged
    by_chance  elements whose gradient float32 has without noise
    fault    what the candidate's Adam does otherwise
    """
    rng = np.random.default_rng(3)
    exact = [rng.normal(size=SIZE) for _ in range(3)]
    for gradient in exact:
        gradient[tiny] *= size
    runs = []
    for i, (kind, off) in enumerate(zip(KINDS, noise * 2, strict=True)):
        off = off if i < 2 else 1e-9 * off
        noises = [off * rng.normal(size=SIZE) for _ in exact]
        for values in noises if i < 2 else ():
            values[list(by_chance)] = 0.0
        given = [(g + values).astype(kind) for g, values in zip(exact, noises, strict=True)]
        runs.append((given, list(adam(given, **(fault if i % 2 else {})))))
    for step, key, off in moved_steps(exact, max(noise), rng):
        logs.noise[f"adam/{step:03d}/{key}/bias"] = off
    for step in range(3):
        start = f"adam/{step:03d}/"
        logs.add(f"{start}lr", [np.float64(LR)] * 4)
        logs.add(f"{start}grad/bias", [given[step] for given, _ in runs])
        weights = [made[step][0] for _, made in runs]
        if change is not None:
            weights[1], weights[3] = (change(w, step).astype(w.dtype) for w in weights[1::2])
        logs.add(f"{start}weight/bias", weights, weights[3])
        for kind, place in (("moment1", 1), ("moment2", 2)):
            arrays = [made[step][place] for _, made in runs]
            logs.add(f"{start}{kind}/bias", arrays)
    rows = logs.judge()
    return [rows[f"adam/{step:03d}/weight/bias"] for step in range(3)], rows


@pytest.mark.parametrize(
    ("noisy", "excused"),
    [
        # 2 of 24 elements: the one side's noise in float32 is twenty times the other's.
        ({"noise": (1e-12, 2e-10)}, True),
        # Zero in exact arithmetic: steps of full size in any direction, in float64 too.
        ({"size": 0.0, "noise": (1e-5, 1e-5)}, True),
        # One that float32 has right by chance, and that float64's noise moves as well.
        (
            {"tiny": slice(0, SIZE), "size": 0.0, "noise": (1e-5, 1e-5), "by_chance": (3,)},
            False,
        ),
    ],
    ids=["tiny gradients", "zero in exact arithmetic", "right by chance"],
)
def test_weights_that_the_noise_of_gradients_moves(logs, noisy, excused):
    rows, _ = steps_of_adam(logs, **noisy)
    assert {row.verdict for row in rows} <= {"IDENTICAL", "ROUNDING"}, rows
    assert any(Kind.MEASURED in row.excuses for row in rows) or not excused


def one_element(element, off):
    def change(weights, step):
        weights = weights.copy()
        weights[element] += off
        return weights

    return change


@pytest.mark.parametrize(
    "fault",
    [
        {"epsilon": 1e-7},
        {"change": one_element(5, 1e-5)},
        {"change": one_element(0, 5e-3)},  # farther than three steps can move it
        {"tiny": slice(0, 0), "change": one_element(0, 1e-8)},
    ],
    ids=["epsilon", "one element", "one far", "one that is not tiny"],
)
@pytest.mark.parametrize("size", [1e-9, 0.0])
def test_a_wrong_optimizer_is_no_noise_of_a_gradient(logs, fault, size):
    _, rows = steps_of_adam(logs, size=size, **fault)
    assert "DIVERGED" in {row.verdict for key, row in rows.items() if "/weight/" in key}


def test_values_that_nothing_moves_are_not_excused_beside_noise(logs):
    """Their gradient is 0 in float32 too: a decay that only one side has would hide there."""
    rng = np.random.default_rng(4)
    gradient = 1e-9 * rng.normal(size=(4, SIZE))
    gradient[:, :2] = 0.0
    gradient[2:] *= 1e-9
    runs = [list(adam([g.astype(k)])) for g, k in zip(gradient, KINDS, strict=True)]
    weights = [made[0][0] for made in runs]
    weights[3][0] += 1e-4
    logs.add("adam/000/lr", [np.float64(LR)] * 4)
    logs.add("adam/000/weight/bias", weights, weights[3])
    logs.add("adam/000/moment1/bias", [made[0][1] for made in runs])
    logs.add("adam/000/moment2/bias", [made[0][2] for made in runs])
    row = logs.judge()["adam/000/weight/bias"]
    assert row.verdict == "DIVERGED"


@pytest.mark.parametrize(
    ("noise", "measured", "verdict"),
    [
        (3e-9, 4e-7, "ROUNDING"),
        (3e-4, 4e-6, "ROUNDING"),  # thousands of torch's, in one element
        (3e-4, 1e-8, "PRECISION"),  # SGD makes no whole steps of noise
        (5e-2, 4e-6, "PRECISION"),  # farther than Adam makes of rounding
    ],
)
def test_a_trained_weight_may_have_moved_by_noise_that_adam_made_a_step_of(
    logs, noise, measured, verdict
):
    logs.add("train/000/loss", pair(np.float64(0.7)))
    weights = list(pair(VALUES, noise=1e-7))
    weights[1][0, 0] = weights[3][0, 0] + noise
    logs.add("trained/weight/linear.weight", weights)
    logs.noise["trained/weight/linear.weight"] = np.outer([measured, 1e-15], [1.0, 4.0])
    row = logs.judge(4)["trained/weight/linear.weight"]
    assert row.verdict == verdict, row.note
    assert (row.excuse != "") == (noise == 3e-4 and verdict == "ROUNDING"), row.excuse


def test_adam_is_no_excuse_behind_what_is_less_exact_by_itself(logs):
    logs.entries["optimizer"] = {"main": "adam"}
    loss = list(pair(VALUES))
    loss[1] = (loss[3] * (1 + 1e-3 * RNG.standard_normal(VALUES.shape))).astype(np.float32)
    logs.add("train/000/loss", loss)
    weights = list(pair(VALUES, noise=1e-7))
    weights[1][0, 0] = weights[3][0, 0] + 5e-4
    logs.add("trained/weight/linear.weight", weights)
    verdicts = [row.verdict for row in logs.judge(4).values()]
    assert verdicts == ["PRECISION", "PRECISION"]


# ---- constants -----------------------------------------------------------------------------------


GAT = {"classes": {"conv": "own GATConv", "conv:in/0": "own GATConv"}}
NORM = {"classes": {"norm": "LayerNorm", "norm:in/0": "LayerNorm"}}


@pytest.mark.parametrize("change", [1e-8, 1e-7])
def test_a_constant_of_a_users_own_layer_is_a_fault(logs, change):
    """1e-8 for 1e-16 in a denominator; a factor of 1 - 1e-7: nothing of Paddle's explains them."""
    logs.entries = GAT
    logs.add("conv:in/0", pair(VALUES))
    off = VALUES * (1 + change)
    logs.add("conv", pair(VALUES, change), off, off)
    row = logs.judge()["conv"]
    assert row.verdict == "DIVERGED" and row.origin
    assert "none of Paddle's operators" in row.note


@pytest.mark.parametrize("name", ["selu", "layer_norm", "interpolate"])
def test_a_constant_is_shown_by_the_run_with_exact_operators(logs, name):
    """An operator of Paddle's in the user's layer, whose exact formula leaves nothing of it."""
    logs.entries = {**GAT, "inexact": {"conv": {name: 3e-7}, "other": {"elu": 4e-9}}}
    logs.add("conv", pair(VALUES, 5e-7), VALUES * (1 + 5e-7))
    row = logs.judge()["conv"]
    assert row.verdict == "CONSTANT" and row.excuse == "the framework's operator"
    assert f"Paddle's {name} " in row.note and "(3.0e-07)" in row.note
    assert "elu's" not in row.note


@pytest.mark.parametrize("name", ["Adam", "celu of torch", "my_operator", ""])
def test_an_operator_that_the_table_does_not_excuse_explains_nothing(logs, name):
    """A sidecar of somebody else may name what it likes."""
    logs.entries = {**GAT, "inexact": {"conv": {name: 3e-7}}}
    logs.add("conv", pair(VALUES, 5e-8), VALUES * (1 + 5e-8))
    assert logs.judge()["conv"].verdict == "DIVERGED"


@pytest.mark.parametrize("left", [1e-8, 2e-9])
def test_what_a_port_adds_to_an_operators_constant_fails(logs, left):
    """Of 5e-8 the operator makes 3e-8: what is left of it is the port's own."""
    logs.entries = {**GAT, "inexact": {"conv": {"selu": 3e-8}}}
    logs.add("conv", pair(VALUES, 5e-8), VALUES * (1 + 5e-8), VALUES * (1 + left))
    assert logs.judge()["conv"].verdict == "DIVERGED"


def test_a_constant_brings_no_nan(logs):
    """DeBERTa-v2 of PaddleNLP 2.8.1: a softmax of nothing but -inf, behind it a norm's constant."""
    logs.entries = {
        "classes": {"softmax:in/0": "Dropout", "softmax": "Dropout", "norm": "LayerNorm"},
        "inexact": {"norm": {"layer_norm": 3e-7}},
    }

    def with_nan(values):
        return np.where(np.arange(len(values))[:, None] == 0, np.nan, values)

    def spoilt(values):
        ref32, cand32, ref64, cand64 = pair(values, 5e-7)
        return ref32, with_nan(cand32), ref64, with_nan(cand64)

    logs.add("softmax:in/0", spoilt(VALUES), with_nan(VALUES), with_nan(VALUES))
    logs.add("softmax", spoilt(VALUES))
    logs.add("norm", spoilt(VALUES), VALUES * (1 + 5e-7))
    logs.add("logits", spoilt(VALUES))
    rows = logs.judge()
    assert rows["norm"].verdict == "CONSTANT" and rows["logits"].verdict == "CARRIED"
    assert rows["softmax:in/0"].verdict == "INVALID" and rows["softmax:in/0"].origin
    assert exit_code(row.verdict for row in rows.values()) == 1


def test_the_clip_at_64_is_the_frameworks_however_large(logs):
    logs.entries = {"inexact": {"": {"cross_entropy": 0.2}}}
    loss = np.float64(100.0)
    logs.add("loss", pair(loss, -0.36), np.float64(64.0))
    row = logs.judge()["loss"]
    assert row.verdict == "CONSTANT" and "no logit for more than 64 below" in row.note
    logs.add("loss", pair(loss, -0.36), np.float64(64.0), np.float64(99.0))
    assert logs.judge()["loss"].verdict == "DIVERGED"


@pytest.mark.parametrize(
    ("entries", "epsilons", "change", "verdict"),
    [
        (NORM, (1e-5, 1e-5), 1.3e-8, "CONSTANT"),  # what float32 makes of an epsilon
        (NORM, (1e-12, 1e-6), 5e-9, "DIVERGED"),  # on a variance of 100
        (NORM, (1e-5, 1e-5), 5e-7, "DIVERGED"),
        ({}, (1e-5, 1e-5), 1.3e-8, "DIVERGED"),  # of no operator that is known
    ],
)
def test_what_an_epsilon_in_float32_explains_without_a_further_run(
    logs, entries, epsilons, change, verdict
):
    logs.entries = entries
    for name, epsilon in zip(("ref32", "cand32"), epsilons, strict=True):
        logs.of_side[name] = {"settings": {"norm": {"epsilon": epsilon}}}
    logs.add("norm:in/0", pair(VALUES))
    logs.add("norm", pair(VALUES, change))
    row = logs.judge(4)["norm"]
    assert row.verdict == verdict
    assert (verdict != "CONSTANT") or "layer_norm keeps its epsilon" in row.note


@pytest.mark.parametrize(("momentum", "verdict"), [(0.99, "CONSTANT"), (0.9, "DIVERGED")])
def test_running_statistics(logs, momentum, verdict):
    """0.99 in float32 is CONSTANT; another momentum, 0.9 for 0.99, is not."""
    weight = 1 - np.float64(np.float32(momentum))
    right = 0.01 * VALUES
    logs.entries = {"inexact": {"norm": {"batch_norm": 9.5e-7}}}
    exact = right if momentum == 0.99 else (1 - momentum) * VALUES
    logs.add("norm:running_mean", pair(right, weight / 0.01 - 1), VALUES * weight, exact)
    row = logs.judge()["norm:running_mean"]
    assert row.verdict == verdict
    assert verdict == "DIVERGED" or "its momentum in float32" in row.note


@pytest.mark.parametrize(("spread", "told"), [(100.0, True), (10.0, False)])
def test_a_loss_beyond_paddles_limit_names_its_cause(logs, spread, told):
    logs.add("logits", pair(np.array([[0.0, spread], [1.0, 2.0]])))
    logs.add("loss", pair(np.float64(3.0), 0.1), np.float64(3.3))
    row = logs.judge()["loss"]
    assert row.verdict == "DIVERGED" and ("more than 64 below" in row.note) == told


def test_choices_of_another_shape_are_not_one_choice(logs):
    """Two calls of one name: only a note says that they were not compared."""
    index, top = VALUES.argmax(-1), np.sort(VALUES, axis=-1)
    parts = {"topk:scores": VALUES, "topk:margin": top[:, -1] - top[:, -2], "topk": index}
    for name, values in parts.items():
        logs.rows[name] = [values, values[:2]] * 2 + [values[:2]] * 2
    ledger = {"scores": "topk:scores", "margin": "topk:margin"}
    logs.entries = {"choices": {"topk": ledger}, "classes": dict.fromkeys(parts, "own choice")}
    logs.add("out", pair(VALUES))
    assert list(logs.judge()) == ["out"]


@pytest.mark.parametrize(("factor", "verdict"), [(4.0, "ROUNDING"), (20.0, "PRECISION")])
def test_gradients_at_adams_weights_are_as_noisy_as_paddles_adam_makes_them(logs, factor, verdict):
    """By a factor on the measured noise, whatever luck torch's one run had."""

    def gradient(noise):
        values = VALUES * 1e-3
        t32, p32, t64, p64 = pair(values)
        p32 = (p64 + noise * 6e-11 * RNG.choice([-1.0, 1.0], values.shape)).astype(np.float32)
        return t32, p32, t64, p64

    logs.entries = {"batches": {"main/": 4}}
    logs.add("main/grad/w", gradient(1.0))
    logs.add("main/adam/001/grad/w", gradient(16 * adam_noise() * factor))
    assert logs.judge()["main/adam/001/grad/w"].verdict == "PRECISION"
    logs.noise["main/adam/001/grad/w"] = np.outer([5 * 6e-11, 1e-20], [1.0, 1.0])
    row = logs.judge()["main/adam/001/grad/w"]
    assert row.verdict == verdict, row
    if verdict == "PRECISION":
        assert "Adam and AdamW by themselves" in row.note
