"""Agreement on data: what differs is found, and FLIP is said only where rounding decides."""

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from checkout import ROOT, Checkout
from mutant import mutant

from twincheck.common.logs.result_folder import AGREEMENT_FILE
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.system.errors import UserError
from twincheck.extras.agreement import choosing, examples
from twincheck.extras.agreement.agreement import Found, compare, judge, judge_integers, summed
from twincheck.extras.agreement.choosing import answer, choices_of, top

EXAMPLE = ROOT / "examples" / "text_classifier"
RNG = np.random.default_rng(0)


# ---- the verdict of a decision ------------------------------------------------------------------

# Scores of five classes: 0 and 1 are 1e-8 apart, 2 and 3 are 1e-3.
EXACT = np.array([1.0, 1.0 - 1e-8, 0.5, 0.499, -1.0])


def runs(torch32=0.0, paddle32=0.0, paddle64=0.0):
    """(side, dtype) -> scores, each run's with what it is off."""
    off = {
        ("torch", "float64"): 0.0,
        ("torch", "float32"): torch32,
        ("paddle", "float64"): paddle64,
        ("paddle", "float32"): paddle32,
    }
    return {run: EXACT + np.asarray(each) for run, each in off.items()}


def found(a, b, scores) -> Found:
    """The decision in which torch's top k is `a` and paddle's `b`."""
    rank = next(i for i in range(len(a)) if a[i] != b[i]) + 1
    own = [scores[side, "float32"][ids].tolist() for side, ids in (("torch", a), ("paddle", b))]
    return Found(0, "logits", (), rank, a, b, *own)


NOISE = np.array([5e-8, -5e-8, 0, 0, 0])
SWAPPED, ORDER = [1, 0, 2], [0, 1, 2]


def test_a_near_tie_is_a_flip():
    scores = runs(torch32=NOISE, paddle32=-NOISE)
    told = judge(found(ORDER, SWAPPED, scores), scores)
    assert (told["verdict"], told["rank"], told["torch"], told["paddle"]) == ("FLIP", 1, 0, 1)
    assert told["margin"] == pytest.approx(1e-8) and told["margin"] <= told["allowed"]
    assert told["noise"] == pytest.approx({"torch": 5e-8, "paddle": 5e-8})


def diverged(scores, a, b, words):
    told = judge(found(a, b, scores), scores)
    assert told["verdict"] == "DIVERGED" and words in told["said"], told


def test_what_rounding_does_not_decide_has_diverged():
    wrong = np.array([0, 0, 0, 2e-3, 0])
    # Another function, whose float64 scores say so: even where the margin is no more than noise.
    other = runs(torch32=NOISE, paddle32=wrong, paddle64=wrong)
    diverged(other, [0, 1, 2], [0, 1, 3], "another function")
    slight = runs(torch32=NOISE, paddle32=-NOISE + 1e-6, paddle64=1e-6)
    diverged(slight, ORDER, SWAPPED, "another function")
    # The same function in float64, and a float32 that is far less exact than the reference's.
    rough = runs(torch32=NOISE, paddle32=wrong)
    diverged(rough, [0, 1, 2], [0, 1, 3], "much less exactly")
    # Alone the side chooses as the reference does: its batch has changed what it gives.
    alone = runs(torch32=NOISE, paddle32=NOISE)
    diverged(alone, [0, 1, 2], [0, 1, 3], "depends on the others")


def test_without_float64_or_with_nan_nothing_passes():
    scores = runs(torch32=NOISE, paddle32=-NOISE)
    only = {run: each for run, each in scores.items() if run[1] == "float32"}
    told = judge(found(ORDER, SWAPPED, scores), only)
    assert told["verdict"] == "DIVERGED" and told["margin"] is None
    nan = Found(0, "logits", (), 1, [0, 1, 2], [-1, -1, -1], [1, 1, 1], [np.nan] * 3)
    assert judge(nan, {})["verdict"] == "INVALID"


def test_masked_scores_of_minus_infinity_are_no_distance():
    scores = {run: np.append(each, -np.inf) for run, each in runs(NOISE, -NOISE).items()}
    assert judge(found(ORDER, SWAPPED, scores), scores)["verdict"] == "FLIP"


def test_integers_are_judged_by_what_the_hook_chose_from():
    one = Found(0, "boxes", (2,), 1, [4], [5], [], [])
    values, tiny = np.linspace(0, 1, 7), np.full(7, 1e-7)
    runs = {(s, "float64"): {"kept": values} for s in ("torch", "paddle")}
    for run in ("float32", "batch"):
        runs |= {(s, run): {"kept": values + tiny} for s in ("torch", "paddle")}
    assert judge_integers(one, runs)["verdict"] == "FLIP"
    for at, off, said in (
        (("paddle", "float64"), 1e-3, "another function"),
        (("paddle", "float32"), 1e-3, "much less exactly"),
        (("paddle", "batch"), 1e-3, "depends on the others"),
        (("torch", "batch"), 1e-3, "torch side's kept: one example's"),
    ):
        told = judge_integers(one, runs | {at: {"kept": values + off}})
        assert told["verdict"] == "DIVERGED" and said in told["said"]
    del runs["paddle", "float64"]
    assert "without a float64 run" in judge_integers(one, runs)["said"]


# ---- both sides' answers ------------------------------------------------------------------------


class OwnPair:
    """A pair with its case.py's functions."""

    name, folder = "own", Path("own")

    def __init__(self, **functions):
        self.case = ModuleType("case")
        vars(self.case).update(functions)


def answers(logits, fed=b"a" * 32):
    pair = OwnPair()
    return answer(pair, {"logits": logits}, {}, len(logits)) | {"fed": np.frombuffer(fed, np.uint8)}


def test_the_largest_scores_are_the_same_however_many_there_are():
    scores = RNG.integers(0, 9, (3, 4, 50)).astype(np.float32)  # ties, the lower id first
    scores[0, 0, 7] = np.nan
    ids, values = top(scores)
    assert (ids[0, 0] == -1).all() and np.isnan(values[0, 0]).all()
    searched = mutant(choosing, "_SORTED_CLASSES = 1 << 12", "_SORTED_CLASSES = 1")
    assert np.array_equal(searched.top(scores)[0], ids)
    assert np.array_equal(ids[1, 2], np.argsort(-scores[1, 2], kind="stable")[:5])


def test_tokens_are_counted_where_they_are_no_padding():
    logits = RNG.normal(size=(2, 3, 8)).astype(np.float32)
    other = logits.copy()
    other[0, 1] = -logits[0, 1]
    other[1, 2] = -logits[1, 2]  # padding
    mask = np.array([[1, 1, 1], [1, 1, 0]]) != 0
    counts, differing = compare(answers(logits), answers(other), mask)
    assert [(each.row, each.position) for each in differing] == [(0, (1,))]
    assert (counts["logits"]["decisions"], counts["logits"]["equal"]) == (5, 4)


def test_examples_in_another_order_are_refused():
    logits = RNG.normal(size=(4, 8)).astype(np.float32)
    with pytest.raises(ValueError, match="not fed the same arrays in the same order"):
        compare(answers(logits), answers(logits[::-1], b"b" * 32), None)


def test_nan_on_both_sides_is_no_agreement():
    logits = RNG.normal(size=(4, 8)).astype(np.float32)
    logits[2, 3] = np.nan
    counts, differing = compare(answers(logits), answers(logits), None)
    assert counts["logits"]["equal"] == 3 and [each.row for each in differing] == [2]
    parts = [{"choices": counts, "disagreements": [judge(differing[0], {})], "unjudged": 0}]
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
    return examples.open_examples(path, *a_pair(**more), 0, None, None)


def test_an_npz_is_read_in_parts(tmp_path):
    x, ids = RNG.normal(size=(50, 4)), RNG.integers(0, 9, 50).astype(np.int32)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "data.npz", x=x, ids=ids, labels=ids, names=np.array(["a"] * 50))
        with opened(tmp_path / "data.npz") as data:
            read = {at: data.read(*at) for at in ((0, 8), (8, 16), (40, 50), (3, 5))}
        assert data.count == 50 and "labels" in data.notes[0]
        for (first, last), batch in read.items():  # on, ahead, and back
            assert np.array_equal(batch.arrays["x"], x[first:last].astype(np.float32))
            assert np.array_equal(batch.arrays["ids"], ids[first:last])
            assert batch.arrays["ids"].dtype == np.int64


BAD = {
    "not the inputs": ({"y": np.zeros((3, 4))}, "the model's inputs are x, ids"),
    "another kind": ({"x": np.zeros((3, 4), np.uint8)}, "x holds uint8, and the model takes float"),
    "other lengths": ({"x": np.zeros((3, 4)), "ids": np.zeros(2, int)}, "x has 3, ids has 2"),
    "Fortran": ({"x": np.asfortranarray(np.zeros((3, 4)))}, "stored in Fortran's order"),
    "objects": ({"x": np.array([None, {}])}, "not numbers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_data_that_do_not_fit_are_one_sentence(tmp_path, kind):
    arrays, said = BAD[kind]
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(UserError) as error, opened(tmp_path / "data.npz") as data:
        data.read(0, 1)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_an_npz_that_is_cut_off_or_damaged_is_refused(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=RNG.normal(size=(500, 4)))
    content = bytearray(path.read_bytes())
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="no .npz of numbers"):
        opened(path)
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read"), opened(path) as data:
        data.read(0, 500)


def test_lines_are_padded_and_only_their_tokens_count(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("hello\n\n  \nworlds of text\n")
    inputs = {"input_ids": np.zeros((2, 8), np.int64)}
    with opened(path, make_inputs=lambda config, seed: inputs) as data:
        batch = data.read(0, 2)
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
def test_a_port_whose_top_1_agrees_at_99_per_cent_diverges_and_a_stop_costs_nothing(checkout):
    """A wrong epsilon; one file is damaged at first, so that the first run stops behind it."""
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
    out = ("--out", str(checkout.elsewhere / "out"))
    stopped = checkout.check(2, *command, *out)
    assert stopped.returncode == 2, stopped.stdout + stopped.stderr
    assert re.fullmatch(r"error: .*0400.npy cannot be read: .*\n", stopped.stderr)
    kept = checkout.elsewhere / "out" / "step2_metric" / ".checkpoints" / "epsilon" / "agree"
    parts = sorted(path.stem for path in kept.glob("0*.json"))
    assert parts == [f"{number:06d}" for number in range(8)]
    # A mark in what was kept is in the result: those examples were not run again.
    first = kept / "000000.json"
    part = json.loads(first.read_text())
    part["choices"]["logits"]["decisions"] += 1000
    first.write_text(json.dumps(part))
    damaged.write_bytes(content)
    done = checkout.check(2, *command, *out, "--resume")
    assert done.returncode == 1, done.stdout + done.stderr
    assert not kept.exists()
    path = checkout.elsewhere / "out" / "step2_metric" / "epsilon" / AGREEMENT_FILE
    result = json.loads(path.read_text())
    assert result["verdict"] == "DIVERGED" and result["counts"]["FLIP"] == 0
    choice = result["choices"][0]
    assert choice["decisions"] == COUNT + 1000
    assert choice["top1"]["equal"] >= 0.99 * COUNT
    assert all("another function" in each["said"] for each in result["disagreements"])
    assert any("first example" in note for note in result["notes"])
    assert result["disagreements"][0]["source"].endswith(".npy")
    assert "99.8%" in done.stdout and "DIVERGED" in done.stdout
