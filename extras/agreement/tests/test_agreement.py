"""Agreement on data: what differs is found, and FLIP is said only where rounding decides."""

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from checkout import ROOT, Checkout

from twincheck.common.logs.result_folder import AGREEMENT_FILE
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.system.errors import UserError
from twincheck.extras.agreement.agreement import Found, compare, judge, summed
from twincheck.extras.agreement.choosing import answer, choices_of, top
from twincheck.extras.agreement.examples import Examples

EXAMPLE = ROOT / "examples" / "text_classifier"
RNG = np.random.default_rng(0)


# ---- the verdict of a decision ------------------------------------------------------------------

# Scores of five classes: 0 and 1 are 1e-8 apart, 2 and 3 are 1e-3.
EXACT = np.array([1.0, 1.0 - 1e-8, 0.5, 0.499, -1.0])
NOISE, WRONG = np.array([5e-8, -5e-8, 0, 0, 0]), np.array([0, 0, 0, 2e-3, 0])
SWAPPED, ORDER, FOURTH = [1, 0, 2], [0, 1, 2], [0, 1, 3]


def judged(chosen, torch32=0.0, paddle32=0.0, paddle64=0.0, runs=4, masked=0):
    """The verdict where torch's top k is ORDER and Paddle's `chosen`, of runs that are off."""
    off = {
        ("torch", "float32"): torch32,
        ("paddle", "float32"): paddle32,
        ("torch", "float64"): 0.0,
        ("paddle", "float64"): paddle64,
    }
    scores = {run: np.append(EXACT + each, [-np.inf] * masked) for run, each in off.items()}
    ids = {"torch": ORDER, "paddle": chosen}
    own = {side: scores[side, "float32"][ids[side]].tolist() for side in ids}
    rank = next(i for i in range(len(ORDER)) if ORDER[i] != chosen[i]) + 1
    again = {run: {"scores/logits": each[None]} for run, each in list(scores.items())[:runs]}
    return judge(Found(0, "logits", (), rank, ids, own), again, 0)


def test_a_near_tie_is_a_flip():
    told = judged(SWAPPED, NOISE, -NOISE)
    assert (told["verdict"], told["rank"], told["torch"], told["paddle"]) == ("FLIP", 1, 0, 1)
    assert told["margin"] == pytest.approx(1e-8) and told["margin"] <= told["allowed"]
    assert told["noise"] == pytest.approx({"torch": 5e-8, "paddle": 5e-8})
    assert judged(SWAPPED, NOISE, -NOISE, masked=1)["verdict"] == "FLIP", "a mask is no distance"


@pytest.mark.parametrize(
    ("chosen", "off", "said"),
    [
        # Another function, as float64 says: even where the margin is no more than noise.
        (FOURTH, {"paddle32": WRONG, "paddle64": WRONG}, "another function"),
        (SWAPPED, {"paddle32": -NOISE + 1e-6, "paddle64": 1e-6}, "another function"),
        (FOURTH, {"paddle32": WRONG}, "much less exactly"),
        # Alone the side chooses as the reference does: its batch has changed what it gives.
        (FOURTH, {"paddle32": NOISE}, "depends on the others"),
        (SWAPPED, {"paddle32": -NOISE, "runs": 2}, "without a float64 run"),
    ],
)
def test_what_rounding_does_not_decide_has_diverged(chosen, off, said):
    told = judged(chosen, NOISE, **off)
    assert told["verdict"] == "DIVERGED" and said in told["said"], told
    assert (told["margin"] is None) == ("runs" in off)


def test_integers_are_judged_by_what_the_hook_chose_from():
    values, tiny, sides = np.linspace(0, 1, 7), np.full(7, 1e-7), ("torch", "paddle")

    def told(**off):
        """off: SIDE_RUN -> what its floats are off; None: there is no such run."""
        runs = {f"{side}_{run}": tiny for side in sides for run in ("float32", "batch")}
        runs |= {f"{side}_float64": 0.0 for side in sides} | off
        runs = {tuple(k.split("_")): values + v for k, v in runs.items() if v is not None}
        floats = {side: {"kept": runs.pop((side, "batch"))} for side in sides}
        one = Found(0, "boxes", (2,), 1, {"torch": [4], "paddle": [5]}, {}, floats)
        return judge(one, {run: {"out/kept": each} for run, each in runs.items()}, 0)

    assert told()["verdict"] == "FLIP"
    for off, said in (
        ({"paddle_float64": 1e-3}, "another function"),
        ({"paddle_float32": 1e-3}, "much less exactly"),
        ({"paddle_batch": 1e-3}, "depends on the others"),
        ({"torch_batch": 1e-3}, "torch side's kept: one example's"),
        ({"paddle_float64": None}, "without a float64 run"),
    ):
        found = told(**off)
        assert found["verdict"] == "DIVERGED" and said in found["said"]


# ---- both sides' answers ------------------------------------------------------------------------


class OwnPair:
    """A pair with its case.py's functions."""

    name, folder = "own", Path("own")

    def __init__(self, **functions):
        self.case = ModuleType("case")
        vars(self.case).update(functions)


def both(torch, paddle):
    """Both sides' answers of logits."""
    given, fed = {"torch": torch, "paddle": paddle}, {"fed": np.zeros(32, np.uint8)}
    return {side: answer(OwnPair(), {"logits": v}, {}, len(v)) | fed for side, v in given.items()}


def test_of_equal_scores_the_lower_id_comes_first_and_of_nan_nothing_is_chosen():
    scores = RNG.integers(0, 9, (3, 4, 50)).astype(np.float32)
    scores[0, 0, 7], scores[1, 1, 2:] = np.nan, -np.inf
    ids, values = top(scores)
    assert (ids[0, 0] == -1).all() and np.isnan(values[0, 0]).all()
    for at in ((1, 1), (1, 2)):
        assert np.array_equal(ids[at], np.argsort(-scores[at], kind="stable")[:5])


def test_tokens_are_counted_where_they_are_no_padding():
    logits = RNG.normal(size=(2, 3, 8)).astype(np.float32)
    other = logits.copy()
    other[0, 1] = -logits[0, 1]
    other[1, 2] = -logits[1, 2]  # padding
    mask = np.array([[1, 1, 1], [1, 1, 0]]) != 0
    counts, differing = compare(both(logits, other), mask)
    assert [(each.row, each.position) for each in differing] == [(0, (1,))]
    assert (counts["logits"]["decisions"], counts["logits"]["equal"]) == (5, 4)


def test_examples_in_another_order_are_refused():
    logits = RNG.normal(size=(4, 8)).astype(np.float32)
    answers = both(logits, logits[::-1])
    answers["paddle"]["fed"] = np.ones(32, np.uint8)
    with pytest.raises(ValueError, match="not fed the same arrays in the same order"):
        compare(answers, None)


def test_nan_on_both_sides_is_no_agreement():
    logits = RNG.normal(size=(4, 8)).astype(np.float32)
    logits[2, 3] = np.nan
    counts, differing = compare(both(logits, logits), None)
    assert counts["logits"]["equal"] == 3 and [each.row for each in differing] == [2]
    parts = [{"choices": counts, "disagreements": [judge(differing[0], {}, 0)], "unjudged": 0}]
    parts[0]["disagreements"][0] |= {"example": 2, "source": ""}
    total = summed(parts)
    assert (total["verdict"], total["exit_code"]) == ("INVALID", 1)


def test_what_is_chosen_is_the_pairs_to_say():
    outputs = {"boxes": RNG.normal(size=(2, 5, 4)), "scores": RNG.normal(size=(2, 5, 3))}
    with pytest.raises(UserError, match=r"let agreement\(outputs\) in case.py return"):
        choices_of(OwnPair(), outputs, 2)
    pair = OwnPair(agreement=lambda out: {"kept": (out["scores"].max(-1) > 0.5).astype(int)})
    assert choices_of(pair, outputs, 2)["kept"].shape == (2, 5)
    pair = OwnPair(agreement=lambda out: out["scores"].sum())
    with pytest.raises(UserError, match="for 2 examples"):
        choices_of(pair, outputs, 2)


# ---- data ---------------------------------------------------------------------------------------


def a_pair(**more):
    """A pair whose model takes x (B, 4) and ids (B,)."""
    case = ModuleType("case")
    inputs = {"x": np.zeros((2, 4)), "ids": np.zeros(2, np.int64)}
    vars(case).update({"CONFIGS": {}, "make_inputs": lambda config, seed: inputs} | more)
    return Pair("own", Path("own"), case), Case("", {})


def opened(path, **more):
    return Examples(path, *a_pair(**more), 0, None, None)


def test_an_npz_is_read_in_parts(tmp_path):
    x, ids = RNG.normal(size=(50, 4)), RNG.integers(0, 9, 50).astype(np.int32)
    names = np.array(["a"] * 50)
    np.savez(tmp_path / "data.npz", x=np.asfortranarray(x), ids=ids, labels=ids, names=names)
    data = opened(tmp_path / "data.npz")
    assert data.count == 50 and "labels" in data.notes[0]
    batch = data.read(40, 50)
    assert np.array_equal(batch.arrays["x"], x[40:].astype(np.float32))
    assert np.array_equal(batch.arrays["ids"], ids[40:])
    assert batch.arrays["ids"].dtype == np.int64


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": np.zeros((3, 4))}, "the model's inputs are x, ids"),
        ({"x": np.zeros((3, 4), np.uint8)}, "x holds uint8, and the model takes float"),
        ({"x": np.zeros((3, 4)), "ids": np.zeros(2, int)}, "x has 3, ids has 2"),
        ({"x": np.array(["a"])}, "x is <U1, not numbers"),
        ({"x": np.array([None, {}])}, "no .npz of numbers"),
        (None, "no .npz of numbers"),  # cut off
    ],
)
def test_data_that_do_not_fit_are_one_sentence(tmp_path, arrays, said):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays or {"x": np.zeros((3, 4))})
    if arrays is None:
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError) as error:
        opened(path).read(0, 1)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_lines_are_padded_and_only_their_tokens_count(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("hello\n\n  \nworlds of text\n")
    inputs = {"input_ids": np.zeros((2, 8), np.int64)}
    batch = opened(path, make_inputs=lambda config, seed: inputs).read(0, 2)
    assert batch.sources == ["line 1", "line 4"]
    assert batch.mask.sum(axis=1).tolist() == [5, 14] and batch.arrays["input_ids"].shape == (2, 64)
    with pytest.raises(UserError, match="let read_text"):
        opened(path)


def test_a_hooks_examples_must_be_alike(tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.zeros(4 + (i == 2)))
    data = opened(tmp_path, read_example=lambda path: {"x": np.load(path)})
    with pytest.raises(UserError, match=r"2.npy gives x \[5\], and 0.npy x \[4\]"):
        data.read(0, 3)
    with pytest.raises(UserError, match="has no read_example"):
        opened(tmp_path)


# ---- the whole of it ----------------------------------------------------------------------------

HOOK = """

def read_example(path):
    return {"input_ids": np.load(path)}
"""
COUNT = 600


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("agreement"))


@pytest.mark.slow
def test_a_port_whose_top_1_agrees_at_99_per_cent_diverges(checkout):
    """A wrong epsilon; a damaged file ends the first run in a sentence."""
    pair, data = checkout.elsewhere / "epsilon", checkout.elsewhere / "data"
    shutil.copytree(EXAMPLE, pair)
    with open(pair / "case.py", "a") as file:
        file.write(HOOK)
    model = (pair / "paddle_model.py").read_text()
    assert "nn.BatchNorm1D(width)" in model
    wrong = model.replace("nn.BatchNorm1D(width)", "nn.BatchNorm1D(width, epsilon=5e-2)")
    (pair / "paddle_model.py").write_text(wrong)
    data.mkdir()
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 13, COUNT)
    ids = np.where(np.arange(12) < lengths[:, None], rng.integers(1, 40, (COUNT, 12)), 0)
    for i, row in enumerate(ids):
        np.save(data / f"{i:04d}.npy", row)
    damaged = data / "0400.npy"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:100])
    command = ("--model", str(pair), "--agree", str(data), "--batch-size", "50")
    command += ("--out", str(checkout.elsewhere / "out"))
    stopped = checkout.check(2, *command)
    assert stopped.returncode == 2, stopped.stdout + stopped.stderr
    assert re.fullmatch(r"error: .*0400.npy cannot be read: .*\n", stopped.stderr)
    damaged.write_bytes(content)
    done = checkout.check(2, *command)
    assert done.returncode == 1, done.stdout + done.stderr
    path = checkout.elsewhere / "out" / "step2_metric" / "epsilon" / AGREEMENT_FILE
    result = json.loads(path.read_text())
    assert result["verdict"] == "DIVERGED" and result["counts"]["FLIP"] == 0
    choice = result["choices"][0]
    assert choice["decisions"] == COUNT and choice["top1"]["equal"] >= 0.99 * COUNT
    assert all("another function" in each["said"] for each in result["disagreements"])
    assert any("first example" in note for note in result["notes"])
    assert result["disagreements"][0]["source"].endswith(".npy")
    assert "99.8%" in done.stdout and "DIVERGED" in done.stdout
