"""Losses that other trainers logged: read, brought together, judged, and told apart.

The files in tests/losses are of the real writers: tensorboardX 2.6.5 (with a histogram), VisualDL
2.5.3, and transformers 4.57.6's Trainer with logging_steps=10 and logging_first_step.
"""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT, Checkout, change
from mutant import mutant

from twincheck.common.logs.result_folder import TRAINERS_FILE
from twincheck.common.system.errors import UserError
from twincheck.extras.trainers import first_loss, loss_logs, trainers
from twincheck.extras.trainers.first_loss import candidates, of_batch
from twincheck.extras.trainers.loss_logs import Curve, read_losses, together
from twincheck.extras.trainers.trainers import Envelope, Precision

FILES = ROOT / "tests" / "losses"
WRITTEN = [2.5, 2.25, 1.75, 1.5, 1.3125]
RNG = np.random.default_rng(3)
LOSSES = 4.0 - np.linspace(0.0, 1.0, 40) + RNG.normal(0.0, 0.05, 40)


def a_file(tmp_path, text, name="log.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def csv_of(tmp_path, losses, name="log.csv", first=1, digits=8) -> Path:
    lines = [f"{step},{loss:.{digits}f}" for step, loss in enumerate(losses, first)]
    return a_file(tmp_path, "\n".join(["step,loss", *lines, ""]), name)


def read(tmp_path, losses, **how) -> Curve:
    return read_losses(csv_of(tmp_path, losses, **how))


def judged(torch: Curve, paddle: Curve, envelope=None):
    precision = Precision(torch, paddle)
    found = together(torch, paddle, precision.alike)
    return found, precision, trainers.judge(found, precision, envelope)


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["events.out.tfevents.1", "vdlrecords.1.log"])
def test_event_files_are_read_without_their_libraries(name, tmp_path):
    curve = read_losses(FILES / name)
    assert (curve.name, curve.losses.tolist()) == ("train/loss", WRITTEN)
    assert curve.steps.tolist() == [1, 2, 3, 4, 5]
    # One that is still written ends in the midst of a record; the rest counts.
    content = (FILES / name).read_bytes()
    cut = tmp_path / name
    cut.write_bytes(content[: content.rindex(b"train/loss") + 4])
    assert read_losses(cut).losses.tolist() == WRITTEN[:-1]
    cut.write_bytes(content[:8] + b"\xff" * 40)
    with pytest.raises(UserError, match="damaged"):
        read_losses(cut)


def test_a_trainers_state_holds_means_since_the_last_loss():
    curve = read_losses(FILES / "trainer_state.json")
    assert curve.means is True and curve.steps.tolist() == [1, 10, 20, 30, 40]
    assert curve.losses.tolist() == [3.932, 3.9725, 3.7632, 3.627, 3.5103]
    assert curve.step_of_values == pytest.approx(1e-4)


ROWS = [
    ('{"global_step/max_steps": "1/3", "loss": 2.0}\n{"global_step/max_steps": "2/3", "loss": 1}',
     "a.jsonl", [1, 2], [2.0, 1.0]),
    ("Wall time,Step,Value\n1.5,1,2.0\n2.5,2,1.0\n", "tb.csv", [1, 2], [2.0, 1.0]),
    ("epoch\tstep\ttrain_loss\teval_loss\n1\t1\t4\t\n1\t2\t3\t9\n2\t1\t2\t\n", "e.tsv",
     [1, 2, 3], [4.0, 3.0, 2.0]),
    ("step,loss\n1,4\n1,2\n2,2\n2,0\n", "micro.csv", [1, 2], [3.0, 1.0]),
    ("step,loss\n1,4\n2,3\n3,9\n2,2\n3,1\n", "again.csv", [1, 2, 3], [4.0, 2.0, 1.0]),
    ("[Train][Epoch 1/2][Iter: 1/1]lr: 0.1, loss: 2.0, ips: 1\n[Eval] loss: 9\n"
     "[Train][Epoch 2/2][Iter: 1/1]lr: 0.1, loss: 1.5\n", "train.log", [1, 2], [2.0, 1.5]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "steps", "losses"), ROWS, ids=lambda v: str(v)[:9])
def test_columns_epochs_micro_batches_and_restarts(tmp_path, text, name, steps, losses):
    curve = read_losses(a_file(tmp_path, text, name))
    assert (curve.steps.tolist(), curve.losses.tolist()) == (steps, losses)


REFUSED = [
    ("step,lm_loss,aux_loss\n1,2,3\n", "several losses: lm_loss, aux_loss; say which"),
    ("step,smooth_loss\n1,2\n", "smoothed by its name"),
    ("step,loss\n1,two\n", "'two', not a number"),
    ("step,loss\n1,2\n1,3\n2,1\n", "several losses, and others have not as many"),
    ('{"log_history": [{"eval_loss": 1, "step": 1}]}', "no entry of its log_history has loss"),
    ("no numbers here", "no line of it says"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[said[:20] for _, said in REFUSED])
def test_what_cannot_be_read_is_one_sentence(tmp_path, text, said):
    path = a_file(tmp_path, text)
    with pytest.raises(UserError) as error:
        read_losses(path)
    assert said in str(error.value) and str(path) in str(error.value)
    assert "\n" not in str(error.value)


# ---- brought together ---------------------------------------------------------------------------


def every_ten(means: bool) -> str:
    ends = range(10, 41, 10)
    losses = [LOSSES[e - 10 : e].mean() if means else LOSSES[e - 1] for e in ends]
    return "step,loss\n" + "".join(f"{e},{x:.6f}\n" for e, x in zip(ends, losses, strict=True))


@pytest.mark.parametrize("means", [True, False])
def test_another_interval_is_taken_as_the_numbers_say(tmp_path, means):
    fine = read(tmp_path, LOSSES)
    coarse = read_losses(a_file(tmp_path, every_ten(means), "ten.csv"))
    found, _, result = judged(fine, coarse)
    assert found.widths.tolist() == [10 if means else 1] * 4
    assert [row.verdict for row in result.rows] == ["ROUNDING", "CLOSE"]
    # Taken the other way they would be red: the choice is what makes them comparable.
    wrong = loss_logs._over(not means, not means, fine, coarse)
    assert np.abs(wrong.torch - wrong.paddle).max() > 1e-3 or means


def test_the_trainers_first_loss_alone_and_then_means(tmp_path):
    state = FILES / "trainer_state.json"
    fine = np.repeat([3.9725, 3.7632, 3.627, 3.5103], 10)
    fine[0] = 3.932
    found, _, result = judged(read(tmp_path, fine), read_losses(state))
    assert found.steps.tolist() == [1, 10, 20, 30, 40]
    assert found.widths.tolist() == [1, 9, 10, 10, 10]
    assert [row.verdict for row in result.rows] == ["IDENTICAL", "IDENTICAL"]


def test_steps_from_zero_and_missing_steps(tmp_path):
    torch = read(tmp_path, LOSSES)
    found, _, result = judged(torch, read(tmp_path, LOSSES, name="zero.csv", first=0))
    assert found.steps.size == 40 and "from another start" in " ".join(result.notes)
    lines = csv_of(tmp_path, LOSSES).read_text().splitlines()
    holes = read_losses(a_file(tmp_path, "\n".join(lines[:5] + lines[8:]), "holes.csv"))
    found, _, result = judged(torch, holes)
    assert found.steps.size == 37 and result.rows[1].verdict == "IDENTICAL"


# ---- judged -------------------------------------------------------------------------------------


def test_the_self_twins_envelope_decides_where_the_training_can_be_repeated(tmp_path):
    growing = 1e-7 * np.exp(np.linspace(0.0, 5.0, 40))
    runs = [LOSSES + growing * sign for sign in (0.0, 1.0, -1.0, 0.5)]
    envelope = Envelope((runs, runs), tmp_path, 10)
    torch = read(tmp_path, LOSSES)
    near = read(tmp_path, LOSSES - 2 * growing, name="near.csv")
    _, _, result = judged(torch, near, envelope)
    assert result.by == "self-twin" and {r.verdict for r in result.rows} <= {"ROUNDING"}
    # A lasting error of half a per cent: by eye the curves are one.
    lasting = np.linspace(1.0, 1.005, 40)
    _, _, result = judged(torch, read(tmp_path, LOSSES * lasting, name="off.csv"), envelope)
    assert [r.verdict for r in result.rows][-1] == "DIVERGED"
    _, _, alone = judged(torch, read(tmp_path, LOSSES * lasting, name="off.csv"))
    assert [r.verdict for r in alone.rows] == ["IDENTICAL", "CLOSE"]
    assert any("show little" in said for said in alone.cannot_show)


def test_a_loss_that_is_nan_is_invalid(tmp_path):
    losses = LOSSES.copy()
    losses[7] = math.nan
    _, _, result = judged(read(tmp_path, LOSSES), read(tmp_path, losses, name="nan.csv"))
    assert [row.verdict for row in result.rows] == ["INVALID"]
    assert "from step 8 on" in result.rows[0].note


def smooth(losses, weight, debiased):
    last, smoothed = 0.0 if debiased else losses[0], []
    for number, loss in enumerate(losses, 1):
        last = weight * last + (1 - weight) * loss
        smoothed.append(last / (1 - weight**number) if debiased else last)
    return np.array(smoothed)


SMOOTHED = {
    "moving average of weight 0.6": smooth(LOSSES, 0.6, False),
    "TensorBoard's smoothing of weight 0.9": smooth(LOSSES, 0.9, True),
    "mean of all losses": np.cumsum(LOSSES) / np.arange(1, 41),
}


@pytest.mark.parametrize("said", SMOOTHED)
@pytest.mark.parametrize("digits", [4, 8])
def test_smoothed_losses_are_known_for_it(tmp_path, said, digits):
    torch = read(tmp_path, LOSSES, digits=digits)
    paddle = read(tmp_path, SMOOTHED[said], name="smooth.csv", digits=digits)
    found, precision, _ = judged(torch, paddle)
    assert f"paddle's losses are smoothed (a {said}"[:40] in trainers.smoothed(
        found, precision
    ) or said in trainers.smoothed(found, precision)
    noisy = read(tmp_path, LOSSES + np.append(0.0, RNG.normal(0, 0.01, 39)), name="noisy.csv")
    found, precision, _ = judged(torch, noisy)
    assert trainers.smoothed(found, precision) == ""


# ---- why the first loss is another --------------------------------------------------------------

B, T, V = 4, 9, 30
LENGTHS = np.array([9, 4, 6, 7])
MASK = np.arange(T) < LENGTHS[:, None]
IDS = np.where(MASK, RNG.integers(1, V, (B, T)), 0)
LABELS = np.where(MASK, IDS, -100)
LOGITS = RNG.normal(0.0, 1.5, (B, T, V))
OTHER_LOGITS = RNG.normal(0.0, 1.5, (B, T, V))


def by_hand(shift=1, how="mean", logits=LOGITS, labels=LABELS):
    """A loss written out in another way than the candidates are."""
    rows = []
    for b in range(B):
        shares = np.exp(logits[b]) / np.exp(logits[b]).sum(-1, keepdims=True)
        places = [t for t in range(T - shift) if labels[b, t + shift] >= 0]
        rows.append([-math.log(shares[t, labels[b, t + shift]]) for t in places])
    flat = [loss for row in rows for loss in row]
    return {
        "mean": np.mean(flat),
        "sum": np.sum(flat),
        "rows": np.mean([np.mean(row) for row in rows]),
        "per row": np.sum(flat) / B,
        "all places": np.sum(flat) / (B * (T - shift)),
    }[how]


FAULTS = {  # paddle's first loss -> (kind, what is said of it)
    "shifted twice": (by_hand(2), "labels shifted", "paddle's is labels shifted twice, mean"),
    "not shifted": (by_hand(0), "labels shifted", "paddle's is labels not shifted, mean"),
    "rows": (by_hand(how="rows"), "other reduction", "mean over rows of their means"),
    "sum": (by_hand(how="sum"), "other reduction", "shifted once, sum over tokens"),
    "per row": (by_hand(how="per row"), "other reduction", "divided by 4 rows"),
    "places": (by_hand(how="all places"), "other reduction", "divided by all 32 places"),
    "padding": (by_hand(labels=IDS), "other reduction", "mean over tokens, padding counted"),
    "batch": (by_hand(logits=OTHER_LOGITS), "other data", "batch 2"),
    "bug": (by_hand(logits=LOGITS * 1.01), "unexplained", "other data, or a bug"),
}


def every_candidate():
    batch = {"input_ids": IDS, "labels": LABELS}
    of_both = [of_batch(logits, batch) for logits in (LOGITS, OTHER_LOGITS)]
    return [c for n, losses in enumerate(of_both) for c in candidates(n, losses, MASK)]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_cause_of_another_first_loss_is_told(tmp_path, fault):
    loss, kind, said = FAULTS[fault]
    torch = read(tmp_path, [by_hand(), 3.0, 2.9], digits=6)
    paddle = read(tmp_path, [loss, 3.1, 2.8], name="p.csv", digits=6)
    found, precision, result = judged(torch, paddle)
    assert [row.verdict for row in result.rows] == ["DIVERGED"]
    cause = trainers.why(found, precision, every_candidate(), {"torch": by_hand()})
    assert (cause["kind"], cause["of"]) == (kind, "paddle") and said in cause["said"]


def test_the_side_that_is_wrong_is_named_by_the_pairs_own_loss(tmp_path):
    torch, paddle = read(tmp_path, [by_hand(2)]), read(tmp_path, [by_hand()], name="p.csv")
    found, precision, _ = judged(torch, paddle)
    cause = trainers.why(found, precision, every_candidate(), {"torch": by_hand()})
    assert (cause["kind"], cause["of"]) == ("labels shifted", "torch")


def test_without_the_batch_only_counts_and_step_numbers_can_be_told(tmp_path):
    torch = read(tmp_path, LOSSES)
    told = {}
    for name, losses in {
        "eight": LOSSES * 8,
        "late": LOSSES[1:],
        "other": LOSSES * 1.08,
    }.items():
        found, precision, _ = judged(torch, read(tmp_path, losses, name=f"{name}.csv"))
        told[name] = trainers.why(found, precision, [], {})
    assert "exactly 8 times" in told["eight"]["said"]
    assert told["late"]["kind"] == "other step numbers"
    assert told["other"]["kind"] == "unexplained" and "--first-batch" in told["other"]["said"]


def test_these_tests_see_a_shift_that_is_off():
    broken = mutant(first_loss, "labels[:, shift:]", "labels[:, : labels.shape[1] - shift]")
    batch = {"input_ids": IDS, "labels": LABELS}
    wrong = list(broken.candidates(0, broken.of_batch(LOGITS, batch), MASK))
    assert not any(abs(each.loss - by_hand(2)) < 1e-6 for each in wrong)


def test_what_is_written_is_plain_json(tmp_path):
    torch, paddle = read(tmp_path, LOSSES), read(tmp_path, LOSSES + 1e-7, name="p.csv")
    found, precision, result = judged(torch, paddle)
    sides = {"torch": torch, "paddle": paddle}
    told = trainers.as_json(found, sides, result, every_candidate(), precision)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["exit_code"] == 0 and told["first"]["equal"]


# ---- the whole of it ----------------------------------------------------------------------------


def test_both_sides_are_asked_what_the_first_loss_could_be(tmp_path_factory):
    """The port's own loss is a sum where the reference's is a mean: seen, though the logs lie."""
    checkout = Checkout(tmp_path_factory.mktemp("losses"))
    pair = shutil.copytree(ROOT / "examples" / "text_classifier", checkout.elsewhere / "summed")
    change(
        pair / "paddle_model.py",
        'cross_entropy(outputs["logits"], inputs["labels"])',
        'cross_entropy(outputs["logits"], inputs["labels"], reduction="sum")',
    )
    logs = [csv_of(checkout.elsewhere, [loss], name=f"{loss}.csv") for loss in (1.0, 1.5)]
    losses = ("--torch-losses", str(logs[0]), "--paddle-losses", str(logs[1]))
    out = checkout.elsewhere / "out"
    done = checkout.check(5, "--model", str(pair), *losses, "--out", str(out))
    assert done.returncode == 1, done.stdout + done.stderr
    result = json.loads((out / "step5_train" / "summed" / TRAINERS_FILE).read_text())
    made = {each["name"]: each["loss"] for each in result["candidates"]}
    assert made["sum over rows"] == pytest.approx(64 * made["mean over rows"])
    assert made["case.py's own loss"] == pytest.approx(made["mean over rows"])
    assert "mean over rows, batch 4" in made and result["cause"]["kind"] == "unexplained"
    assert any("the port's own loss of this batch" in note for note in result["notes"])
