"""What is inside a model locates, and decides nothing: INSIDE, and values found elsewhere."""

import numpy as np
import pytest
from builders import RUNS, four, write_log

from twincheck.common.verdict.judge import judge_logs

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((4, 3, 6))
OUTPUT = VALUES[:, 0]
SQUARE = RNG.standard_normal((5, 5))
PADDED = np.zeros((4, 1, 1, 6))
PADDED[1, ..., 3:] = 1.0
BIAS = VALUES[:, :1, None]
MASKS = {
    "-1e4 and -inf": (-1e4 * PADDED, np.where(PADDED == 1, -np.inf, 0.0)),
    "beside a bias": (BIAS - 1e30 * PADDED, BIAS - 1e4 * PADDED),
}
OTHER_MASK = MASKS["-1e4 and -inf"] * 2  # in four runs
FOUND = {"IDENTICAL", "ROUNDING"}


def alone(side, values):
    """A value that one side alone has."""
    kept = 0 if side == "torch" else 1
    return tuple(v if i % 2 == kept else None for i, v in enumerate(four(RNG, values)))


def judge(folder, inside, decides=None, step_by_step=None, **told):
    """The rows by key and the judgement of values inside a model, and of those that decide.

    Each is (values, Paddle's), or an array for each run.
    """
    told, options = {"classes": dict.fromkeys(inside, "Linear")} | told, {}
    options["strict"] = told.pop("strict", False)
    rows = inside | ({"logits": (OUTPUT,)} if decides is None else decides)
    rows = {key: row if len(row) == 4 else four(RNG, *row) for key, row in rows.items()}
    paths = {name: folder / f"{name}.npy" for name in RUNS}
    for i, path in enumerate(paths.values()):
        write_log(path, {k: row[i] for k, row in rows.items() if row[i] is not None}, told)
    if step_by_step:
        options["teacher_forced"] = folder / "teacher_forced.npy"
        write_log(options["teacher_forced"], step_by_step, told | {"teacher_forced": True})
    judgement = judge_logs(**paths, **options)
    return {row.key: row for row in judgement.rows}, judgement


OFF = {"logits": (OUTPUT, OUTPUT * 1.001)}
MASK = np.array([[1, 1, 0], [1, 0, 0]])
NARROW, FLIPPED = (MASK, MASK.astype(np.int8)) * 2, (MASK, (1 - MASK).astype(np.int8)) * 2
# What is inside, what decides (None: logits that agree), what else is told; the verdicts, and the
# first row that is off where the exit status is 1.
JUDGED = {
    "other values": ({"attention": (VALUES, VALUES + 1.0)}, None, {}, {"attention": "INSIDE"}, ""),
    "strict": (
        *({"attention": (VALUES, VALUES + 1.0)}, None, {"strict": True}),
        *({"attention": "DIVERGED"}, "attention"),
    ),
    "the workbench's own pairs": (
        *({"attention": (VALUES, VALUES + 1.0)}, None, {"built_in": True}),
        *({"attention": "DIVERGED"}, "attention"),
    ),
    # A mask of int64 here and of int8 there, whether or not something else is off.
    "other integers' type": (
        *({"attention:in/mask": NARROW, "attention": (VALUES,)}, None, {}),
        *({"attention:in/mask": "INSIDE"}, ""),
    ),
    "other integers' type beside a fault": (
        *({"attention:in/mask": NARROW, "attention": (VALUES, VALUES * 1.1)}, OFF, {}),
        *({"attention:in/mask": "INSIDE"}, "attention"),
    ),
    "other integers": (
        *({"attention:in/mask": FLIPPED, "attention": (VALUES,)}, None, {}),
        *({"attention:in/mask": "INSIDE"}, ""),
    ),
    "other integers beside a fault": (
        *({"attention:in/mask": FLIPPED, "attention": (VALUES, VALUES * 1.1)}, OFF, {}),
        *({"attention:in/mask": "INVALID"}, "attention:in/mask"),
    ),
    # A score as large as that is no longer masked.
    "a mask's number alone": ({"attention:in/mask": OTHER_MASK}, OFF, {}, {}, "attention:in/mask"),
    # Neither says where what is off starts.
    "a mask's number beside what is missing or shaped otherwise": (
        {
            "first": alone("torch", VALUES),
            "second": (VALUES, VALUES[:, :2]),
            "attention:in/mask": OTHER_MASK,
        },
        *(OFF, {}, {}, "attention:in/mask"),
    ),
    "probes alone": ({"norm": (VALUES, VALUES * 1.001)}, {}, {}, {"norm": "DIVERGED"}, "norm"),
    "a gradient that is off": (
        {"attention": (VALUES, VALUES + 1.0)},
        {"logits": (OUTPUT,), "grad/norm.weight": (VALUES[0], VALUES[0] * 1.001)},
        *({}, {"attention": "DIVERGED"}, "attention"),
    ),
    "a missing probe": (*({"fused": alone("torch", SQUARE)}, None, {}, {"fused": "INSIDE"}, ""),),
    "a missing output": (
        *({}, {"logits": (OUTPUT,), "fused": alone("torch", SQUARE)}, {}),
        *({"fused": "INVALID"}, "fused"),
    ),
    # By the rule and not by likeness: one that is off by more than rounding is not found.
    "nearly the same under another name": (
        *({"a": alone("torch", VALUES), "b": alone("paddle", VALUES * (1 + 1e-7))}, None, {}),
        *({"a": "INSIDE", "b": "INSIDE"}, ""),
    ),
    # A port that leaves a layer out hands its input on: that is not the layer's value.
    "a value that has its counterpart": (
        *({"norm": (VALUES,), "scaled": alone("torch", VALUES)}, None, {}),
        *({"scaled": "INSIDE"}, ""),
    ),
    # Two towers may be called one after the other either way; a square table has one way up.
    "calls in another order": (
        {
            "tower": (VALUES, VALUES + 1.0),
            "tower#2": (VALUES + 1.0, VALUES),
            "table:in/0": (SQUARE, SQUARE.T),
        },
        *(OFF, {}, {"tower": FOUND, "tower#2": FOUND}, "table:in/0"),
    ),
}


@pytest.mark.parametrize("what", JUDGED)
def test_what_is_inside_locates_and_decides_nothing(tmp_path, what):
    inside, decides, told, verdicts, first = JUDGED[what]
    rows, judgement = judge(tmp_path, inside, decides, **told)
    assert judgement.exit_code == bool(first) and (judgement.first_diverged or "") == first
    for key, wanted in verdicts.items():
        assert rows[key].verdict in (wanted if isinstance(wanted, set) else {wanted}), rows[key]


def test_other_values_inside_are_told(tmp_path):
    rows, judgement = judge(tmp_path, {"attention": (VALUES, VALUES + 1.0)})
    assert rows["attention"].excuse == "other values" and not rows["attention"].origin
    assert judgement.verdict == "INSIDE"
    assert any("1 value inside the model (1 other values)" in note for note in judgement.notes)
    rows, _ = judge(tmp_path, {"fused": alone("torch", SQUARE)})
    assert rows["fused"].excuse == "missing"


def test_what_is_cast_down_inside_decides_though_no_output_shows_it(tmp_path):
    """Both are equal in float64: nothing is built otherwise, it is less exact."""
    ref32, cand32, *wide = four(RNG, VALUES)
    cast = (ref32, cand32.astype(np.float16).astype(np.float32), *wide)
    rows, judgement = judge(tmp_path, {"attention": cast})
    assert rows["attention"].verdict == "PRECISION" and judgement.exit_code == 1
    # Before that is said of it, the run is repeated.
    assert judgement.needs["again"].passes == (("main", ""),)


def masked(folder, mask, other, norm=1.001):
    """The rows where Paddle's mask is another one and a norm is off, as single steps show."""
    off = VALUES * norm
    masks = tuple(m.astype(dtype) for dtype in (np.float32, np.float64) for m in (mask, other))
    inside = {"attention:in/mask": masks, "norm": (VALUES, off), "after": (VALUES, off)}
    local = {"attention:in/mask": other, "norm": off, "after": VALUES, "logits": OUTPUT}
    return judge(folder, inside, {"logits": (OUTPUT, off[:, 0])}, local)


@pytest.mark.parametrize("name", MASKS)
def test_another_number_for_what_is_masked_is_not_named_before_a_cause(tmp_path, name):
    rows, judgement = masked(tmp_path, *MASKS[name])
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


def test_where_an_output_is_off_a_value_inside_names_the_origin(tmp_path):
    inside = {"mask:in/0": (VALUES, VALUES[:, :2]), "norm": (VALUES, VALUES * 1.001)}
    rows, judgement = judge(tmp_path, inside, OFF)
    assert rows["mask:in/0"].verdict == "INSIDE", "a shape alone is no origin"
    assert judgement.first_diverged == "norm" and judgement.exit_code == 1
    assert rows["norm"].verdict == rows["logits"].verdict == "DIVERGED"
    shapes = "mask:in/0: shape (4, 3, 6) on the torch side, (4, 2, 6) on the paddle side"
    assert any(note.endswith(f"the first of other shape, {shapes}") for note in judgement.notes)


ARRANGED = {
    "transposed": lambda x: x.transpose(0, 2, 1),
    "reshaped": lambda x: x.reshape(4, 18),
    "heads apart": lambda x: x.reshape(4, 3, 2, 3).transpose(0, 2, 1, 3),
    "joined heads": lambda x: x.transpose(1, 0, 2).reshape(3, 24),
    "one for all samples": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("how", ARRANGED)
def test_the_same_numbers_arranged_otherwise_agree_and_it_is_told(tmp_path, how):
    other, for_all = ARRANGED[how](VALUES), how == "one for all samples"
    values = VALUES[:1] if for_all else VALUES
    ref32, _, ref64, _ = four(RNG, values)
    cand = [np.broadcast_to(v, other.shape) for v in four(RNG, values if for_all else other)[1::2]]
    rows, judgement = judge(tmp_path, {"x": (ref32, cand[0], ref64, cand[1])})
    assert rows["x"].verdict in FOUND and "the same numbers on the paddle side" in rows["x"].note
    assert judgement.exit_code == 0 and rows["x"].shape == values.shape


def test_the_same_numbers_under_other_names_or_in_parts_are_found(tmp_path):
    inside = {"qkv": alone("torch", np.concatenate([VALUES, 2 * VALUES, 3 * VALUES], axis=-1))}
    inside |= {name: alone("paddle", k * VALUES) for k, name in enumerate(("q", "k", "v"), 1)}
    inside |= {"encoder": alone("torch", VALUES + 5.0)}
    inside |= {"model.encoder": alone("paddle", VALUES + 5.0)}
    rows, judgement = judge(tmp_path, inside)
    assert {row.verdict for row in rows.values()} <= FOUND
    assert "q and k and v (3 values joined)" in rows["qkv"].note
    assert "in qkv (part 2 of 3)" in rows["k"].note and "model.encoder" in rows["encoder"].note
    told = [note for note in judgement.notes if "values inside the model found" in note]
    assert any("7" not in note for note in told)


def test_a_turned_value_that_is_off_is_named(tmp_path):
    off = VALUES.transpose(0, 2, 1).copy()
    off[:, 0] += 0.01
    ref32, _, ref64, _ = four(RNG, VALUES)
    inside = {"conv:in/0": (VALUES + 1.0,)}
    inside["conv"] = ref32, four(RNG, off)[1], ref64, four(RNG, off)[3]
    rows, judgement = judge(tmp_path, inside, {"logits": (OUTPUT, OUTPUT + 0.01)})
    assert judgement.first_diverged == "conv" and rows["conv"].origin, rows["conv"]
    assert "shaped otherwise on the paddle side" in rows["conv"].note
