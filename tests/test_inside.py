"""What is inside a model locates, and decides nothing: INSIDE, and values found elsewhere."""

import numpy as np
import pytest
from builders import RUNS, four, write_log

from twincheck.common.logs import match
from twincheck.common.logs.match import Values, likeness
from twincheck.common.verdict.judge import judge_logs

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((4, 3, 6))


class Logs:
    """Logs of a model whose `classes` say what is inside; None: a key that a side has not."""

    def __init__(self, folder):
        self.folder = folder
        self.rows = {}
        self.classes = {}
        self.built_in = None

    def decides(self, key, values, other=None):
        self.rows[key] = four(RNG, values, other)

    def inside(self, key, values, other=None):
        self.decides(key, values, other)
        self.classes[key] = "Linear"

    def alone(self, side, key, values):
        """A value inside that one side alone has."""
        self.inside(key, values)
        kept = 0 if side == "torch" else 1
        self.rows[key] = tuple(v if i % 2 == kept else None for i, v in enumerate(self.rows[key]))

    def judge(self, **options):
        paths = []
        for i, name in enumerate(RUNS):
            paths.append(self.folder / f"{name}.npy")
            arrays = {k: row[i] for k, row in self.rows.items() if row[i] is not None}
            write_log(paths[-1], arrays, {"classes": self.classes, "built_in": self.built_in})
        judgement = judge_logs(*paths, **options)
        return {row.key: row for row in judgement.rows}, judgement


@pytest.fixture
def logs(tmp_path):
    logs = Logs(tmp_path)
    logs.decides("logits", VALUES[:, 0])
    return logs


def test_other_values_inside_are_no_fault_where_what_decides_agrees(logs):
    logs.inside("attention", VALUES, VALUES + 1.0)
    rows, judgement = logs.judge()
    assert rows["attention"].verdict == "INSIDE" and judgement.exit_code == 0
    assert rows["attention"].excuse == "other values" and not rows["attention"].origin
    assert judgement.verdict == "INSIDE"
    assert any("1 value inside the model (1 other values)" in note for note in judgement.notes)


def test_what_is_cast_down_inside_decides_though_no_output_shows_it(logs):
    """Its values are the same in float64: nothing is built otherwise, it is less exact."""
    logs.inside("attention", VALUES)
    ref32, cand32, *wide = logs.rows["attention"]
    logs.rows["attention"] = (ref32, cand32.astype(np.float16).astype(np.float32), *wide)
    rows, judgement = logs.judge()
    assert rows["attention"].verdict == "PRECISION" and judgement.exit_code == 1
    # Before that is said of it, the run is repeated.
    assert judgement.needs["again"].passes == (("main", ""),)


@pytest.mark.parametrize("how", ("strict", "built_in"))
def test_strict_makes_it_fail_and_the_workbench_s_own_pairs_always_are(logs, how):
    logs.inside("attention", VALUES, VALUES + 1.0)
    logs.built_in = how == "built_in"
    rows, judgement = logs.judge(strict=how == "strict")
    assert rows["attention"].verdict == "DIVERGED" and judgement.exit_code == 1


@pytest.mark.parametrize("off", [False, True])
def test_the_same_integers_in_another_type_are_no_origin(tmp_path, off):
    """A mask of int64 here and of int8 there, whether or not something else is off."""
    logs, mask = Logs(tmp_path), np.array([[1, 1, 0], [1, 0, 0]])
    logs.inside("attention:in/mask", VALUES)
    logs.rows["attention:in/mask"] = (mask, mask.astype(np.int8)) * 2
    logs.inside("attention", VALUES, VALUES * (1.1 if off else 1.0))
    logs.decides("logits", VALUES[:, 0], VALUES[:, 0] * (1.1 if off else 1.0))
    rows, judgement = logs.judge()
    assert rows["attention:in/mask"].verdict == "INSIDE"
    assert judgement.exit_code == off
    logs.rows["attention:in/mask"] = (mask, (1 - mask).astype(np.int8)) * 2
    assert logs.judge()[0]["attention:in/mask"].verdict == ("INVALID" if off else "INSIDE")


PADDED = np.zeros((4, 1, 1, 6))
PADDED[1, ..., 3:] = 1.0
BIAS = VALUES[:, :1, None]
MASKS = {
    "-1e4 and -inf": (-1e4 * PADDED, np.where(PADDED == 1, -np.inf, 0.0)),
    "beside a bias": (BIAS - 1e30 * PADDED, BIAS - 1e4 * PADDED),
}


def masked(folder, mask, other, norm=1.001):
    """The rows where Paddle's mask is another one and a norm is off, as single steps show."""
    logs, off = Logs(folder), VALUES * norm
    logs.inside("attention:in/mask", PADDED)
    logs.rows["attention:in/mask"] = tuple(
        values.astype(dtype) for dtype in (np.float32, np.float64) for values in (mask, other)
    )
    logs.inside("norm", VALUES, off)
    logs.inside("after", VALUES, off)
    logs.decides("logits", VALUES[:, 0], off[:, 0])
    alone = folder / "teacher_forced.npy"
    local = {"attention:in/mask": other, "norm": off, "after": VALUES, "logits": VALUES[:, 0]}
    write_log(alone, local, {"classes": logs.classes, "teacher_forced": True})
    return logs.judge(teacher_forced=alone)


@pytest.mark.parametrize("name", MASKS)
def test_another_number_for_what_is_masked_is_not_named_before_a_cause(tmp_path, name):
    mask, other = MASKS[name]
    rows, judgement = masked(tmp_path, mask, other)
    assert rows["attention:in/mask"].verdict == "INSIDE"
    assert rows["attention:in/mask"].excuse == "another number for what is masked"
    assert judgement.first_diverged == "norm" and judgement.exit_code == 1


WRONG_MASKS = {
    "one place more": np.where(np.arange(6) > 1, 1.0, 0.0) * np.ones((4, 1, 1, 1)),
    "none": 0.0 * PADDED,
    "1 and 0": -1e-4 * PADDED,
}


@pytest.mark.parametrize("name", WRONG_MASKS)
def test_a_mask_of_other_places_is_named(tmp_path, name):
    _, judgement = masked(tmp_path, -1e4 * PADDED, -1e9 * WRONG_MASKS[name])
    assert judgement.first_diverged == "attention:in/mask"


def test_a_mask_s_number_is_named_where_nothing_else_is(tmp_path):
    """A score as large as that is no longer masked."""
    logs, (mask, other) = Logs(tmp_path), MASKS["-1e4 and -inf"]
    logs.inside("attention:in/mask", PADDED)
    logs.rows["attention:in/mask"] = (mask, other) * 2
    logs.decides("logits", VALUES[:, 0], VALUES[:, 0] * 1.001)
    assert logs.judge()[1].first_diverged == "attention:in/mask"


def test_infinities_beside_a_mask_are_no_same_values():
    """Nothing says how far apart two of them are; and NumPy says nothing of it."""
    mask, other = MASKS["-1e4 and -inf"]
    assert match.masks_alike(mask, other)
    ends = np.arange(6) < 2
    assert not match.masks_alike(np.where(ends, np.inf, mask), np.where(ends, np.inf, other))


def test_a_value_that_is_only_missing_is_nothing_else(tmp_path):
    """Nor one of another shape: neither says where what is off starts."""
    logs, (mask, other) = Logs(tmp_path), MASKS["-1e4 and -inf"]
    logs.alone("torch", "first", VALUES)
    logs.inside("second", VALUES, VALUES[:, :2])
    logs.inside("attention:in/mask", PADDED)
    logs.rows["attention:in/mask"] = (mask, other) * 2
    logs.decides("logits", VALUES[:, 0], VALUES[:, 0] * 1.001)
    assert logs.judge()[1].first_diverged == "attention:in/mask"


def test_where_an_output_is_off_a_value_inside_names_the_origin(logs):
    logs.rows = {}
    logs.inside("mask:in/0", VALUES, VALUES[:, :2])
    logs.inside("norm", VALUES, VALUES * 1.001)
    logs.decides("logits", VALUES[:, 0], VALUES[:, 0] * 1.001)
    rows, judgement = logs.judge()
    assert rows["mask:in/0"].verdict == "INSIDE", "a shape alone is no origin"
    assert judgement.first_diverged == "norm" and judgement.exit_code == 1
    assert rows["norm"].verdict == rows["logits"].verdict == "DIVERGED"
    shapes = "mask:in/0: shape (4, 3, 6) on the torch side, (4, 2, 6) on the paddle side"
    assert any(note.endswith(f"the first of other shape, {shapes}") for note in judgement.notes)


def test_nothing_decides_in_a_log_of_probes_alone(logs):
    logs.rows = {}
    logs.inside("norm", VALUES, VALUES * 1.001)
    assert logs.judge()[1].exit_code == 1


def test_a_gradient_or_an_output_that_is_off_decides(logs):
    logs.inside("attention", VALUES, VALUES + 1.0)
    logs.decides("grad/norm.weight", VALUES[0], VALUES[0] * 1.001)
    rows, judgement = logs.judge()
    assert judgement.exit_code == 1 and rows["attention"].verdict == "DIVERGED"


def test_a_missing_output_decides_and_a_missing_probe_does_not(logs):
    logs.alone("torch", "fused", RNG.standard_normal((4, 5)))
    rows, judgement = logs.judge()
    assert rows["fused"].verdict == "INSIDE" and rows["fused"].excuse == "missing"
    assert judgement.exit_code == 0
    logs.classes.clear()
    assert logs.judge()[1].exit_code == 1


ARRANGED = {
    "transposed": lambda x: x.transpose(0, 2, 1),
    "reshaped": lambda x: x.reshape(4, 18),
    "heads apart": lambda x: x.reshape(4, 3, 2, 3).transpose(0, 2, 1, 3),
    "joined heads": lambda x: x.transpose(1, 0, 2).reshape(3, 24),
    "one for all samples": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("how", ARRANGED)
def test_the_same_numbers_arranged_otherwise_agree_and_it_is_told(logs, how):
    other, alone = ARRANGED[how](VALUES), how == "one for all samples"
    values = VALUES[:1] if alone else VALUES
    logs.inside("x", values)
    ref32, _, ref64, _ = logs.rows["x"]
    cand = [np.broadcast_to(v, other.shape) for v in four(RNG, values if alone else other)[1::2]]
    logs.rows["x"] = ref32, cand[0], ref64, cand[1]
    rows, judgement = logs.judge()
    assert rows["x"].verdict in ("IDENTICAL", "ROUNDING"), rows["x"]
    assert "the same numbers on the paddle side" in rows["x"].note
    assert judgement.exit_code == 0 and rows["x"].shape == values.shape


@pytest.mark.parametrize("longer", range(2))
def test_an_axis_of_one_more_is_no_other_shape(logs, longer):
    """On either side, (2, 14, 1, 4, 16) against (2, 14, 4, 16) say."""
    shapes = [(4, 6, 3), (4, 1, 6, 3)][:: 1 - 2 * longer]
    logs.inside("x", VALUES)
    logs.rows["x"] = tuple(v.reshape(shapes[i % 2]) for i, v in enumerate(logs.rows["x"]))
    rows, _ = logs.judge()
    assert rows["x"].verdict in ("IDENTICAL", "ROUNDING"), rows["x"]
    assert "the same numbers on the" in rows["x"].note and "(reshaped)" in rows["x"].note


def test_the_same_numbers_under_other_names_or_in_parts_are_found(logs):
    logs.alone("torch", "qkv", np.concatenate([VALUES, 2 * VALUES, 3 * VALUES], axis=-1))
    for factor, name in enumerate(("q", "k", "v"), 1):
        logs.alone("paddle", name, factor * VALUES)
    logs.alone("torch", "encoder", VALUES + 5.0)
    logs.alone("paddle", "model.encoder", VALUES + 5.0)
    rows, judgement = logs.judge()
    assert {row.verdict for row in rows.values()} <= {"IDENTICAL", "ROUNDING"}
    assert "q and k and v (3 values joined)" in rows["qkv"].note
    assert "in qkv (part 2 of 3)" in rows["k"].note
    assert "model.encoder" in rows["encoder"].note
    told = [note for note in judgement.notes if "values inside the model found" in note]
    assert any("7" not in note for note in told)


def test_what_is_found_elsewhere_is_judged_by_the_rule_and_not_by_likeness(logs):
    """A value that is off by more than rounding is not found, however alike it looks."""
    logs.alone("torch", "a", VALUES)
    logs.alone("paddle", "b", VALUES * (1 + 1e-7))
    rows, _ = logs.judge()
    assert rows["a"].verdict == rows["b"].verdict == "INSIDE"


def test_a_value_that_has_its_counterpart_is_no_other_one_s(logs):
    """A port that leaves a layer out hands its input on: that is not the layer's value."""
    logs.rows = {}
    logs.inside("norm", VALUES)
    logs.alone("torch", "scaled", VALUES)
    logs.decides("logits", VALUES[:, 0])
    rows, _ = logs.judge()
    assert rows["scaled"].verdict == "INSIDE", rows["scaled"].note


def test_a_turned_value_that_is_off_is_named(logs):
    logs.rows = {}
    logs.inside("conv:in/0", VALUES + 1.0)
    logs.inside("conv", VALUES)
    off = VALUES.transpose(0, 2, 1).copy()
    off[:, 0] += 0.01
    ref32, _, ref64, _ = logs.rows["conv"]
    logs.rows["conv"] = ref32, four(RNG, off)[1], ref64, four(RNG, off)[3]
    logs.decides("logits", VALUES[:, 0], VALUES[:, 0] + 0.01)
    rows, judgement = logs.judge()
    assert judgement.first_diverged == "conv" and rows["conv"].origin, rows["conv"]
    assert "shaped otherwise on the paddle side" in rows["conv"].note


def test_no_order_of_axes_is_told_for_another_value():
    assert likeness(VALUES, RNG.standard_normal((4, 6, 3))) is None
    assert likeness(VALUES, np.zeros((0, 6, 3))) is None  # an expert without tokens
    alike = likeness(VALUES, VALUES.transpose(2, 0, 1))
    assert np.array_equal(alike.other(VALUES.transpose(2, 0, 1)), alike.own(VALUES))


def test_what_is_off_is_compared_though_one_side_has_it_for_each_sample():
    """As rotary tables are: (1, tokens, width) and (batch, tokens, width)."""
    off = np.broadcast_to(VALUES[:1] * 1.01, (5, 3, 6))
    alike = likeness(VALUES[:1], off)
    assert alike.own(VALUES[:1]).shape == alike.other(off).shape == (3, 6)
    assert np.array_equal(alike.back(VALUES[:1]), np.broadcast_to(VALUES[:1], (5, 3, 6)))


def test_a_plain_value_is_not_found_among_others():
    """Zeros are everywhere: they tell nothing."""
    others = {"a": np.zeros((2, 3)), "b": np.full((2, 3), 7.0)}
    assert Values(others, others).find(np.zeros(6)) is None


def test_calls_in_another_order_name_no_origin_and_a_turned_table_does(logs):
    """Two towers may be called one after the other either way; a square table has one way up."""
    logs.rows = {}
    square = RNG.standard_normal((5, 5))
    logs.inside("tower", VALUES, VALUES + 1.0)
    logs.inside("tower#2", VALUES + 1.0, VALUES)
    logs.inside("table:in/0", square, square.T)
    logs.decides("logits", VALUES[:, 0], VALUES[:, 0] * 1.1)
    rows, judgement = logs.judge()
    assert {rows[key].verdict for key in ("tower", "tower#2")} <= {"IDENTICAL", "ROUNDING"}
    assert judgement.first_diverged == "table:in/0"
