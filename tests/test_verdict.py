"""The rule, verdict by verdict, on constructed tensors."""

import math

import builders
import numpy as np
import pytest

from twincheck.common.verdict import tensor
from twincheck.common.verdict.causes import note_gradient
from twincheck.common.verdict.context import Context, noisier
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.row import (
    AGREEING,
    claim,
    exit_code,
    worst,
)
from twincheck.common.verdict.tolerances import TOLERANCES

EPSILON32 = 6e-8  # relative rounding noise of a float32 run, as drawn below


def judge_tensor(key, *arrays, **known):
    """The rule, with what is known of the tensor by name."""
    pairs = (*arrays, None, None)[:4]
    return tensor.judge_tensor(key, *pairs, Context(**known))


def verdict(*arrays, **known):
    return judge_tensor("k", *arrays, **known).verdict


def four(values, seed=0):
    """(t32, p32, t64, p64) of a correct port: the same values but for rounding."""
    return list(builders.four(np.random.default_rng(seed), values, noise=EPSILON32))


def changed(values, seed, change):
    """A port that computes `change` of the values, in both precisions."""
    t32, _, t64, _ = four(values, seed)
    _, p32, _, p64 = four(change(values), seed)
    return [t32, p32, t64, p64]


def normal(*shape, seed=99):
    return np.random.default_rng(seed).normal(size=shape)


def noise_of(single, double=0.0):
    """The measured noise (common/logs/noise.py) of values that are alike."""
    return np.outer([single, double], [1.0, 4.0])


VALUES = normal(8, 32, 16, seed=999)


# ---- the verdicts -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1.0, 1e8, 1e30])
def test_rounding(seed, scale):
    row = judge_tensor("k", *four(VALUES * scale, seed), batch=8)
    assert (row.verdict, row.excuse) == ("ROUNDING", "")
    assert row.gap <= 1e-8 * row.noise_ref and row.gap <= row.allowed
    assert row.noise_ref == pytest.approx(EPSILON32 * scale, rel=0.2)
    assert row.scale == pytest.approx(scale, rel=0.1)
    assert row.beyond is None and not row.capped


def test_identical_needs_the_same_bits_and_the_same_function():
    t32, _, t64, p64 = four(VALUES)
    assert verdict(t32, t32, t64, p64) == "IDENTICAL"
    assert verdict(t32, t32) == "IDENTICAL"
    assert verdict(t32, t32, t64, p64 * (1 + 1e-3)) == "DIVERGED"
    zero = np.zeros(3, np.float32)
    assert verdict(zero, -zero, zero.astype(float), zero.astype(float)) == ("ROUNDING")


def test_constant():
    """An epsilon in float32: far above rounding, below two float32 epsilons."""
    row = judge_tensor("k", *changed(VALUES, 0, lambda x: x * (1 + 3e-10)), batch=8)
    assert row.verdict == "CONSTANT"
    assert row.gap > row.allowed and row.beyond > 0
    assert verdict(*changed(VALUES, 0, lambda x: x * (1 + 1e-6))) == "DIVERGED"


def test_precision():
    t32, p32, t64, p64 = four(VALUES)
    coarse = (p64 * (1 + 5e-4 * normal(*VALUES.shape))).astype(np.float32)
    row = judge_tensor("k", t32, coarse, t64, p64)
    assert row.verdict == "PRECISION" and row.note == ""
    assert row.noise_cand > row.allowed > row.noise_ref
    assert abs(row.worst_cand - row.worst_ref) > row.allowed
    # A constant beside it does not excuse it.
    assert verdict(t32, coarse, t64, p64 * (1 + 1e-9)) == "PRECISION"


@pytest.mark.parametrize(("batch", "blind", "off"), [(8, 3, 5), (2, 0, 1)])
def test_a_blind_sample_does_not_hide_the_others(batch, blind, off):
    """A fully masked row: float32 is 9 % off in one sample, so that n_t excuses nearly anything."""
    arrays = four(VALUES[-batch:])
    arrays[0][blind] *= np.float32(1.09)
    arrays[1][blind] *= np.float32(1.09)
    assert verdict(*arrays, batch=batch) == "ROUNDING"
    assert judge_tensor("k", *arrays).capped
    arrays[3][off] *= 1 + 1e-8
    assert judge_tensor("k", *arrays, batch=batch).sample == off


def test_one_element_in_a_million():
    arrays = four(normal(1000, 1000))
    arrays[3][7, 8] += 1e-9
    row = judge_tensor("k", *arrays)
    assert (row.verdict, row.measure, row.worst_index) == ("CONSTANT", "max", (7, 8))
    arrays[1][7, 8] += 5.0
    arrays[3][7, 8] += 5.0
    row = judge_tensor("k", *arrays)
    assert (row.verdict, row.beyond, row.worst_index) == ("DIVERGED", 1, (7, 8))


def test_a_tiny_gradient_with_the_wrong_sign():
    """1e-8 of it: the guide passes, and so would any bound against the other gradients."""
    gradient = 1e-8 * normal(64)
    arrays = changed(gradient, 0, lambda x: -x)
    row = judge_tensor("grad/x", *arrays, kind_scale=1.0)
    assert row.verdict == "DIVERGED" and row.guide_passed
    assert judge_tensor("grad/x", *arrays[:2]).verdict == "UNDECIDED"


def gauge(noise32=3e-10, noise64=7e-19, size=64, seed=0):
    """A gradient that is zero in exact arithmetic, as a key's bias has it."""
    rng = np.random.default_rng(seed)
    arrays = [(noise32 * rng.normal(size=size)).astype(np.float32) for _ in range(2)]
    return arrays + [noise64 * rng.normal(size=size) for _ in range(2)]


@pytest.mark.parametrize("side", [None, 0, 1])
def test_a_gradient_that_is_zero_in_exact_arithmetic(side):
    """Noise on both sides, or exactly zero on one of them."""
    arrays = gauge()
    if side is not None:
        arrays[side], arrays[side + 2] = 0 * arrays[side], 0 * arrays[side + 2]
    noise = noise_of(3e-10, 7e-19)
    row = judge_tensor("grad/k.bias", *arrays, kind_scale=1e-2, noise=noise)
    assert row.verdict == "ROUNDING" and row.noise_only
    note_gradient(row, *arrays[2:])
    assert row.note == "zero in exact arithmetic: noise on both sides"


def test_a_large_noise_excuses_only_up_to_the_cap():
    t32, p32, t64, p64 = four(VALUES)
    t32 = (t64 * 1.1).astype(np.float32)
    p32 = (p64 * 1.1001).astype(np.float32)
    assert verdict(t32, p32, t64, p64 * (1 + 1e-6)) == "DIVERGED"
    row = judge_tensor("k", t32, p32, t64, p64)
    assert row.verdict == "ROUNDING" and row.capped


def test_close_is_the_best_that_float32_alone_allows():
    t32, p32, *_ = four(VALUES)
    row = judge_tensor("k", t32, p32)
    assert row.verdict == "CLOSE" and row.gap is None
    far = p32.copy()
    far[1, 2, 3] += 0.01  # 2.4e-6 in the mean of 4,096
    row = judge_tensor("k", t32, far)
    assert row.verdict == "UNDECIDED" and row.worst_index == (1, 2, 3) and row.beyond == 1
    big = judge_tensor("k", 1e4 * t32, 1e4 * p32)
    assert (big.verdict, big.measure, big.guide_passed) == ("UNDECIDED", "mean", False)


# ---- INVALID ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [{0}, {1}, {2}, {3}, {0, 1, 2, 3}])
@pytest.mark.parametrize("full", [True, False])
def test_nan_and_infinity_on_one_side_always_fail(bad, where, full):
    arrays = four(VALUES)
    for i in where:
        arrays[i][0, 1, 2] = bad
    if not full:
        arrays = arrays[:2]
        if not where & {0, 1}:
            return
    if len(where) == 4 and np.isinf(bad):  # equal infinities are equal
        assert verdict(*arrays) == ("ROUNDING" if full else "CLOSE")
        arrays[1][0, 1, 2] = -bad  # of the other sign they are not
    row = judge_tensor("k", *arrays)
    assert row.verdict == "INVALID" and row.mean_abs is None and row.max_abs is None
    assert "first at (0, 1, 2)" in row.note and row.guide_passed is False
    names = ("torch float32", "paddle float32", "torch float64", "paddle float64")
    assert all((names[i] in row.note) == (i in where) for i in range(len(arrays)))


@pytest.mark.parametrize(
    ("ref", "cand", "said"),
    [
        (np.ones((4, 1)), np.ones(4), "shape (4, 1) on the torch side, (4,) on the paddle side"),
        (np.ones(1), np.ones(1000), "shape (1,) on the torch side, (1000,) on the paddle side"),
        (np.ones((2, 3)), np.ones((3, 2)), "shape (2, 3) on the torch side, (3, 2)"),
        (np.ones(2, np.float16), np.ones(2), "dtype float16 on the torch side, float64"),
        (np.ones(2, int), np.ones(2), "dtype int64 on the torch side, float64"),
        (np.ones(2, np.int32), np.ones(2, np.int64), "dtype int32 on the torch side, int64"),
        (np.ones((0, 3)), np.ones((0, 3)), "an empty tensor of shape (0, 3)"),
        (np.ones(2, complex), np.ones(2, complex), "dtype complex128 cannot be judged"),
    ],
)
def test_what_cannot_be_compared(ref, cand, said):
    row = judge_tensor("k", ref, cand)
    assert row.verdict == "INVALID" and said in row.note
    assert row.mean_abs is None and row.max_abs is None
    of_shapes = said.startswith("shape")
    assert (row.unlike, row.other_shape) == (("shape", cand.shape) if of_shapes else ("", None))


def test_float64_logs_of_another_shape_or_type():
    t32, p32, t64, p64 = four(VALUES)
    assert "in float64 shape" in judge_tensor("k", t32, p32, t64, p64[:1]).note
    assert "in float32, (1, 32, 16)" in judge_tensor("k", t32, p32, t64[:1], p64[:1]).note
    row = judge_tensor("k", t32, p32, np.ones(VALUES.shape, int), np.ones(VALUES.shape, int))
    assert row.verdict == "INVALID" and "in the float32 run" in row.note


# ---- corners ------------------------------------------------------------------------------------


def test_a_scalar_whose_noise_is_zero_by_luck():
    value = np.array(0.5)
    row = judge_tensor("loss", value.astype("f4"), value.astype("f4"), value, value * (1 + 1e-15))
    assert row.verdict == "IDENTICAL"


@pytest.mark.parametrize("scale", [1e-42, 1e-200, 1e-300, 1e200])
def test_values_whose_squares_no_float_holds(scale):
    t64 = scale * normal(50)
    with np.errstate(over="ignore"):
        t32 = t64.astype(np.float32) if scale < 1 else np.zeros(50, np.float32)
    assert verdict(t32, t32, t64, t64) == "IDENTICAL"
    row = judge_tensor("k", t32, t32, t64, t64 * 1.1)
    assert row.verdict == "DIVERGED" and 0.5 < row.scale / scale < 5


def test_finite_values_whose_difference_is_not():
    big = np.full(4, 3e38, np.float32)
    row = judge_tensor("k", big, -big)
    assert row.verdict == "UNDECIDED" and row.max_abs == pytest.approx(6e38)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.bool_])
def test_integers_must_be_equal(dtype):
    a = np.array([0, 1, 1, 0], dtype)
    b = np.array([0, 1, 0, 0], dtype)
    assert judge_tensor("ids", a, a, a, a).verdict == "IDENTICAL"
    row = judge_tensor("ids", a, b)
    assert (row.verdict, row.beyond, row.worst_index, row.max_abs) == ("DIVERGED", 1, (2,), 1.0)
    row = judge_tensor("ids", a, a, a, b)
    assert row.verdict == "DIVERGED" and row.note.startswith("float64: 1 of 4 differ")


@pytest.mark.parametrize("shape", [(), (3,), (1000,), (7, 129, 33), (300_001,), (512, 1024)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_mean_is_the_guides_to_the_last_bit(shape, dtype):
    a = np.asarray(normal(*shape)).astype(dtype)
    b = np.asarray(a + 1e-4 * normal(*shape, seed=1)).astype(dtype)
    row = judge_tensor("k", a, b)
    assert row.mean_abs == float(np.mean(np.abs(a - b)))
    assert row.max_abs == float(np.max(np.abs(a - b)))


@pytest.mark.parametrize("shape", [(), (1000,), (7, 129, 33), (300_001,)])
@pytest.mark.parametrize("dtype, size", [("f2", 1.0), ("f4", 1.0), ("f4", 1e-25), ("f4", 1e25)])
def test_how_far_the_sides_are_apart_as_a_part_of_the_size(shape, dtype, size):
    """Squares of 1e-25 and 1e25 are none of float32's."""
    a = np.asarray(size * normal(*shape)).astype(dtype)
    b = np.asarray(a * (1 + 1e-2 * normal(*shape, seed=1))).astype(dtype)
    wide, off = a.astype(float) / size, (a.astype(float) - b) / size
    part = np.sqrt(np.mean(off**2) / np.mean(wide**2))
    assert judge_tensor("k", a, b).difference == pytest.approx(part, rel=1e-3)
    assert judge_tensor("k", a, a).difference == 0.0
    assert judge_tensor("k", a * 0, a).difference is None
    infinite = np.full_like(a, np.inf)
    assert judge_tensor("k", a, infinite).difference is None


# ---- hard but correct ---------------------------------------------------------------------------


def test_what_float32_has_no_digit_of():
    """A difference of 1e8 times larger numbers: noise of its own size, in float64 1e-8 of it."""
    large, small = 1e8 * normal(200), normal(200, seed=1)
    t64 = (large + small) - large
    p64 = t64 + 1e-8 * normal(200, seed=2)
    t32 = (small * 3 * normal(200, seed=3)).astype(np.float32)
    p32 = (small * 3 * normal(200, seed=4)).astype(np.float32)
    noise = noise_of(3.0, 1e-8)
    row = judge_tensor("k", t32, p32, t64, p64, noise=noise)
    assert row.verdict == "ROUNDING" and row.capped
    assert verdict(t32, p32, t64, p64 * (1 + 1e-5), noise=noise) == "DIVERGED"


def test_a_tail_of_which_nothing_is_left():
    """GELU at -8: float32 leaves 0, float64 the last digits of what it was fed."""
    t64, zero = 2e-14 * np.ones(30), np.zeros(30, np.float32)
    p64 = t64 + 3e-17 * normal(30)
    noise = noise_of(1e-8, 2e-17)
    assert verdict(zero, zero, t64, p64) == "DIVERGED"
    assert verdict(zero, zero, t64, p64, noise=noise) == "IDENTICAL"
    assert verdict(zero, zero, t64, t64 + 1e-14, noise=noise) == "DIVERGED"


def test_a_margin_is_judged_by_the_size_of_the_scores():
    t64 = 1e-9 * np.abs(normal(30))
    arrays = [t64.astype(np.float32), (t64 + 6e-8).astype(np.float32), t64, t64 + 2e-16]
    assert verdict(*arrays) != "ROUNDING"
    assert verdict(*arrays, difference_of=1.0) == "ROUNDING"
    arrays[3] = t64 + 1e-6
    assert verdict(*arrays, difference_of=1.0) == "DIVERGED"


def test_underflow_is_no_precision_alarm():
    t64 = 1e-73 * normal(30)
    t32, p32 = t64.astype(np.float32), 3e-38 * np.ones(30, np.float32)
    assert verdict(t32, p32, t64, t64) == "ROUNDING"
    assert verdict(t32, 1e-30 + p32, t64, t64) == "PRECISION"


def test_infinities_of_a_mask():
    """Infinities that are the same on every side are left out, and the rest is judged."""
    arrays = four(VALUES)
    for array in arrays:
        array[:, ::2] = -np.inf
    row = judge_tensor("k", *arrays, batch=8)
    assert row.verdict == "ROUNDING" and row.mean_abs is None and row.guide_passed is False
    assert "2048 of 4096 values are the same infinities on every side, as of a mask" in row.note
    arrays[3][0, 1] *= 1 + 1e-5
    assert verdict(*arrays, batch=8) == "DIVERGED"


def test_nothing_but_infinities_is_invalid():
    arrays = [np.full(3, -np.inf, dtype) for dtype in ("f4", "f4", "f8", "f8")]
    assert verdict(*arrays) == "INVALID"
    for array in arrays:
        array[0] = np.nan  # which --allow nan takes out: still nothing is left
    assert verdict(*arrays, allow_nan=True) == "INVALID"


# ---- excuses ------------------------------------------------------------------------------------


def noisy(noise, **known):
    t32, _, t64, p64 = four(100_000 * np.ones(40))
    p32 = (p64 * (1 + noise * normal(40))).astype(np.float32)
    return judge_tensor("k", t32, p32, t64, p64, **known)


def gap(size, spread, few=False, **known):
    """A gap of that part of the values, and noise that both sides have in float32.

    few   the reference has a hundredth of it, by luck
    """
    t64 = normal(40)
    p64 = t64 * (1 + size * normal(40, seed=1))
    part = 0.01 if few else 1.0
    t32 = (t64 * (1 + part * spread * normal(40, seed=2))).astype(np.float32)
    p32 = (p64 * (1 + spread * normal(40, seed=3))).astype(np.float32)
    return judge_tensor("k", t32, p32, t64, p64, **known)


EXCUSED = {
    "": lambda: gap(1e-13, 1e-7),
    "measured noise": lambda: gap(1e-8, 0.5, noise=noise_of(0.5, 1e-8)),
    "noisy operator": lambda: noisy(3e-5, noisier=noisier(False, 200_000, 1.0)),
}


@pytest.mark.parametrize("excuse", EXCUSED)
def test_a_row_names_the_excuse_without_which_it_would_fail(excuse):
    row = EXCUSED[excuse]()
    assert row.verdict in AGREEING, row
    assert row.excuse == excuse and row.as_json()["excuse"] == excuse


def test_more_noise_than_is_known_of_an_operator_has_no_excuse():
    for size, known in (
        (3e-5, {}),
        (3e-5, {"noisier": noisier(False, 4096, 1.0)}),
        (5e-3, {"noisier": noisier(False, 10**9, 1.0)}),
    ):  # ten times TF32's
        row = noisy(size, **known)
        assert (row.verdict, row.excuse) == ("PRECISION", "")
    assert noisy(2e-6, noisier=noisier(True, 1, 20.0)).verdict == "ROUNDING"  # of an optimizer


def test_a_constant_beside_noise_that_was_measured():
    row = gap(1e-8, 2e-5, few=True, noise=noise_of(2e-5))
    assert row.verdict == "CONSTANT" and row.excuse == "measured noise"
    assert gap(1e-8, 1e-7).verdict == "CONSTANT" and gap(1e-8, 1e-7).excuse == ""


# ---- no float64 path ----------------------------------------------------------------------------


def cast(change=0.0):
    """Four logs of a model that casts to float32 inside, in its float64 runs too."""
    t32, p32 = four(VALUES)[:2]
    p32 = (p32 * (1 + change)).astype(np.float32)
    return [t32, p32, t32.astype(np.float64), p32.astype(np.float64)]


def test_a_cast_inside_the_model_is_judged_by_float32_alone():
    row = judge_tensor("k", *cast(), batch=8)
    assert row.verdict == "CLOSE" and row.gap is None
    assert "torch's and paddle's float64 run holds float32 values here: weights that" in row.note
    assert "float32 alone decides" in row.note
    assert verdict(*cast(1e-2), batch=8) == "DIVERGED"
    t32, p32, *_ = cast()
    assert verdict(t32, p32, t32, p32) == "CLOSE", "its log is float32 itself"


def test_what_is_left_of_larger_values_is_no_cast():
    """A gradient of one value, as Paddle 3.2 had it in step 4's fastformer: 23 bits were left."""
    t64 = np.array([1.8602244744592156e-11])
    assert t64.astype(np.float32) == t64
    arrays = [np.zeros(1, np.float32), np.array([2.0**-29], np.float32), t64, t64]
    row = judge_tensor("grad/b", *arrays, kind_scale=1e-2)
    assert row.verdict == "PRECISION" and not row.noise_only and not row.note
    measured = judge_tensor("grad/b", *arrays, kind_scale=1e-2, noise=noise_of(6e-9, 4e-17))
    assert measured.verdict == "ROUNDING"
    far = [t64.astype(np.float32), np.float32(1.001) * t64.astype(np.float32), t64, t64]
    assert "float32 values here" in judge_tensor("grad/b", *far, kind_scale=1e-2).note


@pytest.mark.parametrize("dtype", ["f2", "bf16"])
def test_half_precision_gets_one_verdict_and_says_so(dtype):
    def half(values):
        if dtype == "f2":
            return values.astype(np.float16)
        return (values.astype("f4").view("u4") & np.uint32(0xFFFF0000)).view("f4")

    same = half(VALUES)
    assert verdict(same, same, same, same) == "IDENTICAL"
    other = half(VALUES * (1 + 5e-3))
    row = judge_tensor("k", same, other, same, other)
    assert row.verdict == "DIVERGED" and "the model casts to half precision" in row.note


# ---- what verdicts come to ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "top", "status"),
    [
        ([], "INVALID", 2),
        (["IDENTICAL"], "IDENTICAL", 0),
        (["IDENTICAL", "ROUNDING", "CLOSE"], "CLOSE", 0),
        (["ROUNDING", "CONSTANT", "CARRIED", "ROUNDING"], "CARRIED", 1),
        (["ROUNDING", "FLIP", "CARRIED"], "CARRIED", 1),
        (["ROUNDING", "CARRIED", "CONSTANT"], "CARRIED", 1),
        (["ROUNDING", "CARRIED"], "CARRIED", 1),
        (["PRECISION", "CARRIED"], "PRECISION", 1),
        (["ROUNDING", "DIVERGED", "CARRIED"], "DIVERGED", 1),
        (["DIVERGED", "INVALID"], "INVALID", 1),
    ],
)
def test_the_worst_and_the_exit_status(verdicts, top, status):
    assert worst(verdicts) == top
    assert exit_code(verdicts) == status


def test_what_is_allowed_excuses_nothing_else():
    assert exit_code(["ROUNDING", "PRECISION"], allow=("PRECISION",)) == 0
    assert exit_code(["PRECISION", "CARRIED"], allow=("PRECISION",)) == 1


def test_claims():
    assert claim("c", 0.0, 0.0).verdict == "IDENTICAL"
    assert claim("c", 1.0, 2.0).verdict == "ROUNDING"
    assert claim("c", 3.0, 2.0, "why").verdict == "DIVERGED"
    assert claim("c", math.nan, 2.0).verdict == "INVALID"
    assert claim("c", math.inf, 2.0).verdict == "DIVERGED"
    assert claim("c", math.inf, 2.0).as_json()["gap"] is None


def test_every_number_of_the_rule_says_why():
    for name, tolerance in TOLERANCES.items():
        assert tolerance.value > 0 and tolerance.reason and tolerance.measured, name
    assert len(TOLERANCES) <= 16


@pytest.mark.parametrize("fill", [-1e9, -1.7e308])
def test_what_a_mask_puts_in_excuses_nothing_behind_it(fill):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 50))
    logits[:, 40:] = fill
    values = rng.standard_normal((4, 50))
    wrong = values * (1.0 + 1e-9)

    def log(behind, dtype):
        lowest = np.finfo(dtype).min
        arrays = {"logits": np.maximum(logits, lowest), "behind": behind}
        return {key: array.astype(dtype) for key, array in arrays.items()}

    def verdicts(cand):
        judged = judge_logs(
            log(values, np.float32),
            log(cand, np.float32),
            log(values, np.float64),
            log(cand, float),
        )
        return [row.verdict for row in judged.rows]

    assert verdicts(values)[1] == "IDENTICAL"
    assert verdicts(wrong * 2.0)[1] == "DIVERGED"
    assert verdicts(wrong)[1] == "DIVERGED"  # above rounding, as it is without a mask
