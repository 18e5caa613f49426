"""PRECISION: a reference that is exact by luck, what inherits such noise, and casts beside both.

A near tie of a softmax makes one vector noisy by a single error, whose size depends on the order
of summation: what MKL takes on one processor is not what it takes on another.
"""

import json

import numpy as np
import pytest

from common.logs.sidecar import Sidecar, write_sidecar
from common.logs.writer import LogWriter
from common.verdict import rule
from common.verdict.context import Context, InheritedNoise
from common.verdict.judge import judge_logs
from common.verdict.replay import Replay, Watch, differences
from common.verdict.tolerances import tolerance

SHAPE = (4, 12, 32)  # batch, tokens, channels, as in faults/pairs/transformer
SIZE, USUAL = 15.0, 1.2e-5  # rms of the values, and of the noise of the vectors that are no tie
SAMPLE, TOKEN = 1, 3  # where the tie is


def drawn(seed=0, shape=SHAPE):
    """t32, p32, t64, p64 whose noise is float32's usual one on both sides, in float64."""
    rng = np.random.default_rng(seed)
    exact = SIZE * rng.standard_normal(shape)
    return [exact + USUAL * rng.standard_normal(shape) for _ in range(2)] + [exact, exact]


def tie(arrays, side, most, at=(SAMPLE, TOKEN)):
    """Add the noise of one error to a vector of one side, at most so large; signs alternate."""
    shares = np.cos(np.arange(arrays[0].shape[-1]))
    arrays[side][at] = arrays[2][at] + most * shares
    return arrays


def half(values, bits):
    """Values rounded to so many bits, as a cast leaves them."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent)


def judged(arrays, batch=4, key="blocks.1.attention.out:in/0", **more):
    floats = [array.astype(np.float32) for array in arrays[:2]]
    return rule.judge_tensor(key, *floats, *arrays[2:], Context(batch=batch, **more))


# ---- one vector ---------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [4, None])
def test_what_an_intel_processor_showed(batch):
    """Paddle's noise 2.6e-3, torch's 5.1e-5, of which 16 times was allowed: 8.1e-4."""
    arrays = tie(tie(drawn(), 0, 5.1e-5), 1, 2.6e-3)
    noise = [np.abs(arrays[side] - arrays[2]).max() for side in (0, 1)]
    assert noise == pytest.approx([5.1e-5, 2.6e-3], rel=0.01)
    assert noise[1] > 3 * tolerance("precision") * noise[0]
    row = judged(arrays, batch)
    assert row.verdict == "ROUNDING", row.note
    assert "1 vector along the last axis carries it" in row.note
    assert row.excuse == "few vectors"


@pytest.mark.parametrize("bits", [11, 8], ids=["TF32 or half", "bfloat16"])
@pytest.mark.parametrize("lucky", [True, False])
def test_a_cast_is_found_in_such_a_tensor(bits, lucky):
    arrays = tie(tie(drawn(), 0, 5.1e-5 if lucky else 2.6e-3), 1, 2.6e-3)
    arrays[1] = half(arrays[1], bits)
    row = judged(arrays)
    assert row.verdict == "PRECISION"
    assert row.noise_cand > row.allowed and "is beyond" in row.note
    # Of one sample alone, too: the others are as exact as float32 is.
    alone = tie(tie(drawn(), 0, 5.1e-5), 1, 2.6e-3)
    alone[1][2] = half(alone[1][2], bits)
    row = judged(alone)
    assert (row.verdict, row.sample) == ("PRECISION", 2)


@pytest.mark.parametrize(
    ("vectors", "times", "verdict"),
    [
        (1, 50, "ROUNDING"),
        (1, 900, "ROUNDING"),
        (1, 1200, "PRECISION"),  # more than luck makes of one error
        (2, 50, "ROUNDING"),
        (2, 300, "PRECISION"),  # of two
        (3, 25, "ROUNDING"),
        (3, 50, "PRECISION"),
        (4, 25, "PRECISION"),  # four are not all lucky
    ],
)
def test_luck_ends_with_the_number_of_vectors(vectors, times, verdict):
    arrays = drawn()
    largest = max(np.abs(arrays[0][b] - arrays[2][b]).max() for b in range(4))
    for i in range(vectors):
        tie(arrays, 1, times * largest, (i, 2 * i))
    row = judged(arrays, None)
    assert row.verdict == verdict, (row.note, row.noise_cand / row.noise_ref)


def test_too_few_vectors_show_nothing():
    """Of seven, one is noisier: who says that it is not the six that are lucky?"""
    for vectors, verdict in ((7, "PRECISION"), (8, "ROUNDING")):
        arrays = tie(drawn(shape=(vectors, 32)), 1, 2.6e-3, (TOKEN,))
        assert judged(arrays, None).verdict == verdict
    arrays = drawn(shape=(7,))
    arrays[1][3] += 2.6e-3
    assert judged(arrays, None).verdict == "PRECISION"
    arrays = drawn(shape=())
    assert judged(arrays, None).verdict in ("IDENTICAL", "ROUNDING")


def test_optimizer_rows_are_not_excused():
    arrays = drawn()
    tie(arrays, 1, 900 * np.abs(arrays[0] - arrays[2]).max())
    assert judged(arrays, None).verdict == "ROUNDING"
    assert judged(arrays, None, optimizer="weight", kind_scale=SIZE).verdict == "PRECISION"


def test_no_alarm_whatever_the_size_of_the_one_error():
    """Both sides draw it; the rule before called one pair in twenty wrong."""
    rng = np.random.default_rng(0)
    alarms = unlucky = 0
    for seed in range(600):
        arrays = drawn(seed)
        for side in (0, 1):
            tie(arrays, side, 2.6e-3 * rng.standard_normal())
        noise = [np.abs(arrays[side] - arrays[2]).max() for side in (0, 1)]
        unlucky += noise[1] > tolerance("precision") * noise[0]
        alarms += judged(arrays).verdict != "ROUNDING"
    assert unlucky >= 10 and alarms == 0


# ---- what inherits it ---------------------------------------------------------------------------


def spread(times, seed=1, sample=SAMPLE):
    """A later tensor: attention has given every vector of the sample the noise of the one."""
    arrays = drawn(seed)
    noise = arrays[0][sample] - arrays[2][sample]
    arrays[1][sample] = arrays[2][sample] + times * noise
    return arrays


def remembered():
    memory = InheritedNoise()
    row = judged(tie(tie(drawn(), 0, 5.1e-5), 1, 2.6e-3), inherited=memory)
    assert row.verdict == "ROUNDING"
    return memory


def test_what_is_computed_from_it_is_as_noisy():
    assert judged(spread(50)).verdict == "PRECISION"
    row = judged(spread(50), inherited=remembered())
    assert row.verdict == "ROUNDING" and "so is what it was computed from" in row.note
    assert row.excuse == "inherited noise"
    # In that sample alone.
    assert judged(spread(50, sample=2), inherited=remembered()).verdict == "PRECISION"
    # Gradients and batches laid out otherwise have no samples.
    assert judged(spread(50), None, inherited=remembered()).verdict == "ROUNDING"
    # A cast is found behind it, even in the same sample.
    arrays = spread(50)
    arrays[1][SAMPLE] = half(arrays[1][SAMPLE], 11)
    assert judged(arrays, inherited=remembered()).verdict == "PRECISION"


def test_excuses_do_not_grow_from_row_to_row():
    memory, times, passed = remembered(), 50.0, 0
    while judged(spread(times, seed=passed), inherited=memory).verdict == "ROUNDING":
        times, passed = 1.5 * times, passed + 1
    assert passed and times < 4 * 51 * 1.5
    assert memory.factors(4).max() == remembered().factors(4).max()


def test_a_row_that_fails_excuses_nothing():
    memory = InheritedNoise()
    arrays = drawn()
    arrays[1] = half(arrays[1], 11)
    assert judged(arrays, inherited=memory).verdict == "PRECISION"
    assert (memory.factors(4) == 1.0).all()
    assert judged(spread(50), inherited=memory).verdict == "PRECISION"


def test_an_ordinary_pair_gets_no_more_than_before():
    memory = InheritedNoise()
    for seed in range(20):
        assert judged(drawn(seed), inherited=memory).verdict == "ROUNDING"
    assert (memory.factors(4) == 1.0).all() and (memory.factors(1) == 1.0).all()


def test_a_case_remembers_its_own_tensors_up_to_its_gradients(tmp_path):
    tensors = {
        "a/attention.out:in/0": tie(tie(drawn(), 0, 5.1e-5), 1, 2.6e-3),
        "a/norm": spread(50),
        "a/grad/norm.bias": [array[SAMPLE] for array in spread(50, seed=2)],
        "b/norm": spread(50),
        "b/grad/norm.bias": [array[SAMPLE] for array in spread(50, seed=2)],
    }
    paths = {}
    for i, name in enumerate(("ref32", "cand32", "ref64", "cand64")):
        paths[name] = tmp_path / f"{name}.npy"
        with LogWriter(paths[name]) as writer:
            for key, arrays in tensors.items():
                writer.add(key, arrays[i].astype(np.float32 if i < 2 else np.float64))
        write_sidecar(paths[name], Sidecar(batches={"a/": 4, "b/": 4}))
    rows = {row.key: row.verdict for row in judge_logs(**paths).rows}
    assert rows == {key: "ROUNDING" if key[0] == "a" else "PRECISION" for key in tensors}


# ---- many equal terms ---------------------------------------------------------------------------

TERMS = 600  # of a mean over time: its gradient is the same at each


def bias_gradient(adding):
    """t32, p32, t64, p64 of 128 sums of equal terms; `adding` sums them on Paddle's side."""
    values = np.random.default_rng(3).standard_normal(128).astype(np.float32) / TERMS
    terms = np.tile(values, (TERMS, 1))
    exact = terms.astype(np.float64).sum(axis=0)
    return [exact.astype(np.float32), adding(terms), exact, exact]


def one_by_one(terms):
    return np.cumsum(terms, axis=0, dtype=np.float32)[-1]


def in_half_precision(terms):
    return terms.sum(axis=0).astype(np.float16).astype(np.float32)


def test_equal_terms_added_one_by_one_are_rounded_the_same_way():
    arrays = bias_gradient(one_by_one)
    alone = rule.judge_tensor("grad/second.bias", *arrays, Context(kind_scale=1.0))
    known = rule.judge_tensor("grad/second.bias", *arrays, Context(kind_scale=1.0, terms=TERMS))
    assert alone.verdict == "PRECISION"
    assert (known.verdict, known.excuse) == ("ROUNDING", "equal terms")


@pytest.mark.parametrize("terms", [TERMS, 10**6])
def test_half_precision_is_no_sum_of_equal_terms(terms):
    arrays = bias_gradient(in_half_precision)
    row = rule.judge_tensor("grad/second.bias", *arrays, Context(kind_scale=1.0, terms=terms))
    assert row.verdict == "PRECISION"


@pytest.mark.parametrize("key", ["grad/second.bias", "main/grad/second.bias"])
def test_how_many_terms_there_are_is_seen_from_the_output(tmp_path, key):
    case = "main/" if key.startswith("main/") else ""
    t32, p32, t64, p64 = bias_gradient(one_by_one)
    runs = {"ref32": t32, "cand32": p32, "ref64": t64, "cand64": p64}
    for rows, verdict in ((TERMS, "ROUNDING"), (1, "PRECISION")):
        paths = {}
        output = np.random.default_rng(0).standard_normal((rows, 128))
        for name, values in runs.items():
            paths[name] = tmp_path / f"{name}.npy"
            with LogWriter(paths[name]) as writer:
                writer.add(f"{case}second", output.astype(values.dtype))
                writer.add(key, values)
            write_sidecar(paths[name], Sidecar(batches={case: None}))
        assert judge_logs(**paths).rows[-1].verdict == verdict


# ---- a ReLU's kink ------------------------------------------------------------------------------


def rectified_runs(tmp_path, wrong, step="", values=400_000):
    """Four runs of a ReLU, whose gradients are float32's; `wrong` changes those of Paddle.

    Returns the verdicts of the gradient behind the ReLU, and of one before it.
    """
    generator = np.random.default_rng(0)
    inner = generator.standard_normal((4, values // 4))
    gradients = {key: generator.standard_normal(inner.shape) for key in ("behind", "before")}
    paths = {}
    for i, name in enumerate(("ref32", "cand32", "ref64", "cand64")):
        noise = np.random.default_rng(i + 1).standard_normal(inner.shape)
        noise *= 1e-7 if name.endswith("32") else 1e-16
        dtype = np.float32 if name.endswith("32") else np.float64
        paths[name] = tmp_path / f"{name}.npy"
        with LogWriter(paths[name]) as writer:
            writer.add("inner", (np.maximum(inner, 0.0) * (1 + noise)).astype(dtype))
            for key, gradient in gradients.items():
                gradient = (gradient * (1 + noise)).astype(dtype)
                if name == "cand32":
                    gradient = wrong(key, gradient)
                writer.add(f"{step}grad/{key}" if step else f"grad_of/{key}", gradient)
        write_sidecar(paths[name], Sidecar(batches={"": 4}))
    return [row.verdict for row in judge_logs(**paths).rows[1:]]


def across_the_kink(key, gradient):
    """One activation is on the other side: of the gradient behind it one value is missing."""
    gradient = gradient.copy()
    if key == "behind":
        gradient[1, 7] = 0.0
        return gradient
    spread = np.random.default_rng(9).standard_normal(gradient.shape)  # a layer later it is in all
    return (gradient + 0.01 * spread).astype(np.float32)


def everywhere(key, gradient):
    return gradient.astype(np.float16).astype(np.float32)


def too_far_before(key, gradient):
    gradient = across_the_kink(key, gradient)
    return gradient if key == "behind" else (gradient * 40).astype(np.float32)


def test_an_activation_across_the_kink_is_no_loss_of_precision(tmp_path):
    assert rectified_runs(tmp_path, across_the_kink) == ["ROUNDING", "ROUNDING"]


def test_of_few_activations_none_is_expected_there(tmp_path):
    assert rectified_runs(tmp_path, across_the_kink, values=400) == ["PRECISION", "PRECISION"]


def test_half_precision_in_the_backward_pass_is_found_behind_a_relu(tmp_path):
    assert rectified_runs(tmp_path, everywhere) == ["PRECISION", "PRECISION"]


def test_what_comes_back_from_a_kink_is_no_larger_than_it_was(tmp_path):
    assert rectified_runs(tmp_path, too_far_before) == ["ROUNDING", "PRECISION"]


def test_steps_may_have_a_kink_and_no_more(tmp_path):
    def a_part(key, gradient):
        return across_the_kink("before", gradient)

    def a_large_part(key, gradient):
        spread = np.random.default_rng(9).standard_normal(gradient.shape)
        return (gradient + 0.05 * spread).astype(np.float32)

    assert rectified_runs(tmp_path, a_part, "sgd/001/") == ["ROUNDING", "ROUNDING"]
    assert "PRECISION" in rectified_runs(tmp_path, a_large_part, "sgd/001/")


# ---- a window's largest value -------------------------------------------------------------------


def pooled_runs(tmp_path, wrong, torchs=None, part=0.05):
    """Four runs of a largest of 4 values, whose gradients are float32's; `wrong` changes Paddle's.

    Returns the rows of the gradient behind the pooling, and of one before it, in which `part` of it
    is noise of Paddle's.
    """
    generator = np.random.default_rng(0)
    inner, before = (generator.standard_normal((8, 1000)) for _ in range(2))
    windows = inner.reshape(8, 250, 4)
    behind = np.where(windows == windows.max(-1, keepdims=True), before.reshape(8, 250, 4), 0.0)
    behind = behind.reshape(inner.shape)
    paths = {}
    for i, name in enumerate(("ref32", "cand32", "ref64", "cand64")):
        noise = np.random.default_rng(i + 1).standard_normal(inner.shape)
        dtype = np.float32 if name.endswith("32") else np.float64
        noise *= 1e-7 if name.endswith("32") else 1e-16
        change = {"cand32": wrong, "ref32": torchs}.get(name) or (lambda gradient: gradient)
        spread = np.random.default_rng(9).standard_normal(inner.shape)
        spread *= part if name == "cand32" else 0.0
        paths[name] = tmp_path / f"{name}.npy"
        with LogWriter(paths[name]) as writer:
            writer.add("inner", (inner * (1 + noise)).astype(dtype))
            writer.add("grad_of/behind", change((behind * (1 + noise)).astype(dtype)))
            writer.add("grad_of/before", (before * (1 + noise) + spread).astype(dtype))
        write_sidecar(paths[name], Sidecar(batches={"": 8}))
    return judge_logs(**paths).rows[1:]


def another_place(windows):
    """Of so many windows another value is taken as the largest."""

    def changed(gradient):
        gradient = gradient.copy().reshape(8, 250, 4)
        gradient[3, :windows] = np.roll(gradient[3, :windows], 1, axis=-1)
        return gradient.reshape(8, 1000)

    return changed


def test_a_window_s_largest_value_from_another_place_is_no_loss_of_precision(tmp_path):
    rows = pooled_runs(tmp_path, another_place(2))
    assert [(row.verdict, row.excuse) for row in rows] == [("ROUNDING", "a kink")] * 2
    assert "a window's largest value that float32 takes from another place" in rows[1].note
    # Where torch's float32 does so too, the gradient there passes, and those before it know.
    rows = pooled_runs(tmp_path, another_place(2), torchs=another_place(1))
    assert [(row.verdict, row.excuse) for row in rows] == [("ROUNDING", ""), ("ROUNDING", "a kink")]


def lost(gradient):
    gradient = gradient.copy()
    gradient[3, np.flatnonzero(gradient[3])[:2]] = 0.0
    return gradient


def halved(gradient):
    gradient = another_place(2)(gradient)
    return (gradient * np.float32(0.5)).astype(np.float32)


def in_half(gradient):
    return gradient.astype(np.float16).astype(np.float32)


def as_it_was(gradient):
    return gradient


@pytest.mark.parametrize("wrong", [lost, halved, in_half, another_place(60), as_it_was])
def test_what_is_no_window_s_choice_fails(tmp_path, wrong):
    assert pooled_runs(tmp_path, wrong)[1].verdict == "PRECISION"


def test_what_comes_back_from_a_window_is_no_larger_than_it_was(tmp_path):
    assert pooled_runs(tmp_path, another_place(2), part=3.0)[1].verdict == "PRECISION"


def as_it_is(step, key, values):
    return values


def logs_behind_a_relu(tmp_path, wrong, wrong64=as_it_is, torchs=as_it_is):
    """Three steps of SGD; `wrong(step, key, values)` changes what Paddle's float32 logs of one."""
    change = {"cand32": wrong, "cand64": wrong64, "ref32": torchs}
    rng = np.random.default_rng(0)
    inner = rng.standard_normal((4, 100_000))
    step_values = [
        {
            "loss": np.array(1.0 + step),
            **{
                f"grad/{key}": rng.standard_normal((50, 20)) for key in ("before", "behind", "last")
            },
            "weight/before": rng.standard_normal((50, 20)),
        }
        for step in range(3)
    ]
    paths = {}
    for i, name in enumerate(("ref32", "cand32", "ref64", "cand64")):
        noises = np.random.default_rng(i + 1)
        off, dtype = (1e-7, np.float32) if name.endswith("32") else (1e-16, np.float64)
        paths[name] = tmp_path / f"{name}.npy"
        with LogWriter(paths[name]) as writer:
            noise = off * noises.standard_normal(inner.shape)
            writer.add("inner", (np.maximum(inner, 0.0) * (1 + noise)).astype(dtype))
            for step, named in enumerate(step_values):
                for key, values in named.items():
                    values = (values * (1 + off * noises.standard_normal(values.shape))).astype(
                        dtype
                    )
                    if name in change:
                        values = change[name](step, key, values)
                    writer.add(f"sgd/{step:03d}/{key}", values.astype(dtype))
        write_sidecar(paths[name], Sidecar(batches={"": 4}))
    return paths


def steps_behind_a_relu(tmp_path, *wrong, **more):
    """Step and key -> row of these logs, and what is said beside."""
    judged = judge_logs(**logs_behind_a_relu(tmp_path, *wrong, **more))
    return {tuple(row.key.split("/", 2)[1:]): row for row in judged.rows[1:]}, judged.notes


def a_kink_in_step_1(step, key, values):
    """One row of the gradient behind it is off, and all of the one before; then every tensor."""
    values = values.copy()
    if step == 1 and key == "grad/behind":
        values[7] += 0.1
    elif (step, key) == (1, "grad/before") or step == 2:
        values += 0.1 * np.random.default_rng(9).standard_normal(values.shape)
    return values


def test_a_kink_in_a_step_is_found_and_what_comes_of_it(tmp_path):
    rows, notes = steps_behind_a_relu(tmp_path, a_kink_in_step_1)
    assert {row.verdict for row in rows.values()} == {"ROUNDING"}
    note = rows["001", "grad/before"].note
    assert "in step 1 of sgd paddle's float32 has an activation on the other side of 0" in note
    assert "the gradient of behind (20 of 1000 values) shows" in note
    said = next(told for told in notes if "optimizer steps" in told)
    assert said.startswith(
        "6 rows of optimizer steps, judged by the float64 runs: in step 1 of sgd"
    )
    assert rows["002", "grad/last"].excuse == "a kink" and rows["000", "grad/last"].excuse == ""


def precision_lost_in_step_1(step, key, values):
    return values.astype(np.float16) * np.float32(1.1) if step and key != "loss" else values


def a_loss_that_is_off_too(step, key, values):
    if (step, key) == (1, "loss"):
        return values * np.float32(1.001)
    return a_kink_in_step_1(step, key, values)


def the_last_layer_is_off_too(step, key, values):
    if (step, key) == (1, "grad/last"):
        return values + np.random.default_rng(8).standard_normal(values.shape) * 0.1
    return a_kink_in_step_1(step, key, values)


@pytest.mark.parametrize(
    "wrong", [precision_lost_in_step_1, a_loss_that_is_off_too, the_last_layer_is_off_too]
)
def test_what_is_no_kink_in_a_step_fails(tmp_path, wrong):
    rows, _ = steps_behind_a_relu(tmp_path, wrong)
    assert rows["001", "grad/before"].verdict == "PRECISION"


def one_value_off(part):
    """What changes a value of the last layer's gradient, and the loss, by this part of them."""

    def change(step, key, values):
        values = values.copy()
        if (step, key) == (1, "grad/last"):
            values[3, 4] += part
        return values * (1 + part) if (step, key) == (1, "loss") else values

    return change


def with_a_kink(change):
    return lambda step, key, values: a_kink_in_step_1(step, key, change(step, key, values))


def test_a_kink_is_found_where_torchs_float32_is_off_in_a_value_too(tmp_path):
    """As in a deep model, in which a value of torch's float32 went another way too."""
    paddles, torchs = with_a_kink(one_value_off(5e-3)), one_value_off(-4e-3)
    rows, _ = steps_behind_a_relu(tmp_path, paddles, torchs=torchs)
    assert {row.verdict for row in rows.values()} == {"ROUNDING"}
    assert "the gradient of behind (20 of 1000 values) shows" in rows["001", "grad/before"].note


def test_torchs_noise_excuses_no_candidates_that_is_ten_times_as_large(tmp_path):
    def all_of_it(step, key, values):
        return values + 0.05 if (step, key) == (1, "grad/last") else values

    paddles, torchs = with_a_kink(all_of_it), one_value_off(-4e-3)
    rows, _ = steps_behind_a_relu(tmp_path, paddles, torchs=torchs)
    assert rows["001", "grad/before"].verdict == "PRECISION"


def test_a_row_that_a_kink_explains_comes_out_the_same_by_itself(tmp_path):
    """As a bundle's check makes it, which has not all gradients of the step."""
    paths = logs_behind_a_relu(tmp_path, a_kink_in_step_1)
    watch = Watch()
    judge_logs(**paths, observer=watch)
    scales = {one.group: one.scale for one in watch.seen if one.scale is not None}
    first = next(one for one in watch.seen if one.row.excuse == "a kink")
    with Replay(paths, scales) as replay:
        row, _ = replay.row(first.key, json.loads(first.known))
    first.row.inside = row.inside
    assert differences(first.row.as_json(), row.as_json()) == []


def test_what_is_off_in_float64_behind_a_kink_fails(tmp_path):
    def one_weight(step, key, values):
        if (step, key) == (2, "weight/before"):
            values[3, 4] += 1e-6
        return values

    rows, _ = steps_behind_a_relu(tmp_path, a_kink_in_step_1, one_weight)
    assert rows["002", "weight/before"].verdict == "DIVERGED"
    assert rows["002", "grad/before"].verdict == "ROUNDING"


# ---- a clipped loss -----------------------------------------------------------------------------


def clipped_loss(tmp_path, paddles, inexact):
    """The row of a loss of 84 in three runs, and of another value in Paddle's float32 run."""
    paths = {}
    for name, values in {"ref32": 84.2, "cand32": paddles, "ref64": 84.2, "cand64": 84.2}.items():
        dtype = np.float32 if name.endswith("32") else np.float64
        paths[name] = tmp_path / f"{name}.npy"
        with LogWriter(paths[name]) as writer:
            writer.add("main/loss", np.asarray(values, dtype))
        found = {"main/": {inexact: 0.3}} if name == "cand64" else {}
        write_sidecar(paths[name], Sidecar(batches={"main/": 2}, inexact=found))
    return judge_logs(**paths).rows[0]


def test_a_loss_that_paddle_clips_in_float32_alone_is_paddles(tmp_path):
    """The float64 run of a large model computes cross_entropy exactly; the float32 run clips it."""
    row = clipped_loss(tmp_path, 64.01, "cross_entropy")
    assert row.verdict == "CONSTANT" and "more than 64 below" in row.note
    assert clipped_loss(tmp_path, 84.9, "cross_entropy").verdict == "PRECISION"
    assert clipped_loss(tmp_path, 64.01, "avg_pool").verdict == "PRECISION"
