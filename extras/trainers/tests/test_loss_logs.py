"""Losses that other trainers logged: read, brought together, judged, and told apart.

tests/losses/trainer_state.json is of transformers 4.57.6's Trainer with logging_steps=10 and
logging_first_step.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from builders import twincheck
from checkout import ROOT

from twincheck.common.logs.result_folder import TRAINERS_FILE
from twincheck.common.system.errors import UserError
from twincheck.extras.trainers import trainers
from twincheck.extras.trainers.loss_logs import Curve, read_losses, together
from twincheck.extras.trainers.trainers import Precision

PAIR = ROOT / "examples" / "text_classifier"
STATE = ROOT / "tests" / "losses" / "trainer_state.json"
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


def judged(torch: Curve, paddle: Curve):
    precision = Precision(torch, paddle)
    found = together(torch, paddle, precision.alike)
    return found, *trainers.judge(found, precision)


# ---- files --------------------------------------------------------------------------------------


def test_a_trainers_state_holds_means_since_the_last_loss():
    curve = read_losses(STATE)
    assert curve.means is True and curve.steps.tolist() == [1, 10, 20, 30, 40]
    assert curve.losses.tolist() == [3.932, 3.9725, 3.7632, 3.627, 3.5103]
    assert curve.step_of_values == pytest.approx(1e-4)


ROWS = [
    ('{"global_step/max_steps": "1/3", "loss": 2.0}\n{"global_step/max_steps": "2/3", "loss": 1}',
     "a.jsonl", [1, 2], [2.0, 1.0]),
    ('[{"iter": 0, "train_loss": 2.0}, {"iter": 1, "train_loss": 1}]', "a.json",
     [1, 2], [2.0, 1.0]),
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
    ("step,lm_loss,smooth_loss\n1,2,3\n", "no column of step, lm_loss, smooth_loss is called loss"),
    ("step,loss\n1,two\n", "'two', not a number"),
    ("step,loss\n1,2\n1,3\n2,1\n", "several losses, and others have not as many"),
    ('{"log_history": [{"eval_loss": 1, "step": 1}]}', "no entry of its log_history has loss"),
    ("no numbers here", "no line of it says"),
    ("step,loss\n1.5,2\n", "'1.5', not a step"),
    ('{"loss": 1}\nloss: 2\n', "line 2 is no JSON"),
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
    found, rows, notes = judged(fine, coarse)
    assert found.widths.tolist() == [10 if means else 1] * 4
    assert [row.verdict for row in rows] == ["ROUNDING", "CLOSE"]


def test_the_trainers_first_loss_alone_and_then_means(tmp_path):
    fine = np.repeat([3.9725, 3.7632, 3.627, 3.5103], 10)
    fine[0] = 3.932
    found, rows, notes = judged(read(tmp_path, fine), read_losses(STATE))
    assert found.steps.tolist() == [1, 10, 20, 30, 40]
    assert found.widths.tolist() == [1, 9, 10, 10, 10]
    assert [row.verdict for row in rows] == ["IDENTICAL", "IDENTICAL"]


def test_steps_from_zero_and_missing_steps(tmp_path):
    torch = read(tmp_path, LOSSES)
    found, rows, notes = judged(torch, read(tmp_path, LOSSES, name="zero.csv", first=0))
    assert found.steps.size == 40 and found.steps[0] == 1
    lines = csv_of(tmp_path, LOSSES).read_text().splitlines()
    holes = read_losses(a_file(tmp_path, "\n".join(lines[:5] + lines[8:]), "holes.csv"))
    found, rows, notes = judged(torch, holes)
    assert found.steps.size == 37 and rows[1].verdict == "IDENTICAL"


# ---- judged -------------------------------------------------------------------------------------


def test_a_loss_that_is_nan_is_invalid(tmp_path):
    losses = LOSSES.copy()
    losses[7] = math.nan
    _, rows, _ = judged(read(tmp_path, LOSSES), read(tmp_path, losses, name="nan.csv"))
    assert [row.verdict for row in rows] == ["INVALID"]
    assert "from step 8 on" in rows[0].note


# ---- the command --------------------------------------------------------------------------------


def test_two_logs_are_judged(tmp_path):
    csv_of(tmp_path, LOSSES, name="t.csv"), csv_of(tmp_path, LOSSES * 1.08, name="p.csv")
    words = (PAIR, "--torch-losses", "t.csv", "--paddle-losses", "p.csv", "--out", "out")
    printed = twincheck("step5", *words, status=1, folder=tmp_path)
    (place,) = tmp_path.glob(f"out/**/{TRAINERS_FILE}")
    told = json.loads(place.read_text())
    assert told["rows"][0]["verdict"] == told["verdict"] == "DIVERGED" and told["exit_code"] == 1
    assert told["notes"][-1] in " ".join(printed.split()) and told["first"]["equal"] is False
    assert told["compared"]["torch"] == pytest.approx(LOSSES)
    said = twincheck("step5", *words[:3], "--out", "out", status=2, folder=tmp_path)
    assert "there is no paddle training to compare with" in said


@pytest.mark.slow
def test_a_log_beside_the_training_of_step_5(tmp_path):
    twincheck("step5", PAIR, "--out", tmp_path, "--steps", "12", "--no-report")
    (folder,) = tmp_path.glob("step5_train/text_classifier")
    words = "--out", tmp_path, "--paddle-losses", folder / "train_torch.log"
    twincheck("step5", PAIR, *words)
    told = json.loads((folder / TRAINERS_FILE).read_text())
    assert told["sides"]["torch"]["file"] is None and told["first"]["equal"]
    assert told["sides"]["paddle"]["format"] == "training log" and told["sources"]["torch"]
