"""Why losses part: gaps planted in another trainer and in ports are named by what gives them.

The other trainer is other_trainer.py: plain torch, nothing of the workbench's loop.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import twincheck
from checkout import ROOT, change

from twincheck.common.logs.reader import read_log
from twincheck.common.pair.data import save_arrays
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import FIRST, RunRequest
from twincheck.common.pair.tape import Tape
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.extras.trainers.hypotheses import hypotheses
from twincheck.extras.trainers.loss_logs import read_losses
from twincheck.extras.trainers.why import RETRAIN, Trainings, explain, merge

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PAIR = HERE / "small_lm"
SHARED = "each of 4 micro-batches takes its own mean, and"
# What the other trainer does -> what is named first.
GAPS = {
    "accumulation summed": f"{SHARED} gradients of all are added",
    "means of ranks": "each of 4 ranks takes its own mean, and these are averaged",
    "labels shifted": "labels shifted by one place more",
    "ignored tokens counted": "ignored labels are counted in the mean, as zeros",
    "summed by rows": "the loss is a sum over the labels, divided by the rows",
    "half a per cent": "1.005 times the loss is logged, gradients are of the loss itself",
    "first step not logged": "the first step is not logged",
    "labels smoothed": "labels are smoothed by 0.1",
    "no master weights": "weights in bfloat16, without master weights",
    "bfloat16 loss": "the loss is computed in bfloat16",
    "not clipped": "gradients are not clipped",
    "each tensor clipped": "each tensor's gradient is clipped to 0.5 by itself",
    "everything decays": "everything decays, biases and norms too",
    "coupled decay": "decay of 0.1 is added to the gradients (Adam with L2)",
    "betas": "Adam's betas are 0.9 and 0.95",
    "epsilon": "Adam's epsilon is 1e-06",
    "warm-up from zero": "the warm-up begins at a learning rate of zero",
    "schedule by epoch": "the schedule goes on after an epoch, by one step",
    "not shuffled": "samples are not shuffled",
    "one order": "every epoch has the first one's order",
    "never cleared": "gradients are not cleared: they add up over all steps",
    "embedding frozen": "embed does not learn",
}
# Where every step's gradient is clipped, its size makes no difference.
SAME = {
    "accumulation summed": f"{SHARED} these are averaged",
    "half a per cent": "1.005 times the loss, gradients too",
}
TWO_GAPS = "not shuffled + betas"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of step 5's result of the pair, which is right."""
    out = tmp_path_factory.mktemp("why") / "out"
    twincheck("step5", PAIR, "--out", out, "--no-report")
    return out


@pytest.fixture(scope="module")
def logged(trained):
    """Gap -> the file of losses that the other trainer logs with it; "" without any."""
    weights = trained / "step5_train" / "small_lm" / "weights" / "main.npz"
    orders = trained / "orders.npy"
    np.save(orders, [Tape(0).permutation("shuffle", epoch, 200) for epoch in range(4)])
    gaps = ["", TWO_GAPS, *GAPS]
    files = {gap: trained / f"{gap}.csv" for gap in gaps}
    words = [str(weights), str(orders), str(trained), *gaps]
    subprocess.run([sys.executable, str(HERE / "other_trainer.py"), *words], check=True)
    return files


@pytest.fixture(scope="module")
def explained(logged, tmp_path_factory):
    """Gap -> what is found of it, all by one process."""
    work, pair = tmp_path_factory.mktemp("asked"), load_pair(str(PAIR))
    parts = pair.case.make_data(pair.config("default"), 0)
    arrays = {f"{part}/{name}": v for part, named in parts.items() for name, v in named.items()}
    save_arrays(work / "data" / "small_lm" / "samples.npz", arrays)
    run = RunRequest(str(PAIR), phase="full", only_float32=True, data=str(work / "data"))
    curves = {gap: read_losses(path) for gap, path in logged.items()}
    with WorkerProcess(sys.executable, FIRST.format("torch")) as process:
        process.module = RETRAIN
        trainings = Trainings(process, run, work / "small_lm")
        told = explain(pair, trainings, work / "data", curves, 300)
        told["usual"] = trainings.curves({"": {}}, 52)[""]
    return told | {"explained": {each.side: each for each in told["explained"]}}


def test_without_a_change_it_is_step_5s_training_bit_for_bit(explained, trained):
    with read_log(trained / "step5_train" / "small_lm" / "train_full_torch.npy") as log:
        assert np.array_equal(explained["usual"], log["curve/loss"])


def test_the_other_trainer_without_a_gap_does_not_part(explained):
    assert explained["explained"][""].parted is None


@pytest.mark.parametrize("gap", GAPS)
def test_a_planted_gap_is_named_first(explained, gap):
    found = explained["explained"][gap]
    first = [each.said for each in found.trials if each.rank() == found.trials[0].rank()]
    assert first[0] in (GAPS[gap], SAME.get(gap)) and GAPS[gap] in first, found.trials[:3]
    assert found.trials[0].fits and found.trials[0].agreed >= found.parted + 7
    assert len(found.trials) > 120 and sum(trial.fits for trial in found.trials) < 10


def test_every_change_can_be_tried(explained):
    """None is left out by mistake: each is of something that this pair has."""
    left_out = [each.left_out for each in explained["explained"].values()]
    assert not any(left_out), left_out


def test_two_gaps_at_once_are_both_named(explained):
    found = explained["explained"][TWO_GAPS]
    named = {GAPS["not shuffled"], GAPS["betas"]}
    assert set(found.trials[0].said.split("; and ")) == named, found.trials[:3]
    assert found.trials[0].fits


def test_changes_of_one_thing_are_not_merged():
    betas, eps = {"rule": {"betas": (0.9, 0.95)}}, {"rule": {"eps": 1e-6}}
    assert merge(betas, eps) == {"rule": {"betas": (0.9, 0.95), "eps": 1e-6}}
    assert merge(betas, {"rule": {"betas": (0.8, 0.9)}}) is None
    assert merge({"order": 1}, {"order": 2}) is None


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_no_two_changes_have_the_same_words(optimizer):
    settings = {"optimizer": optimizer, "weight_decay": 0.0, "clip_norm": None, "lr": 0.1}
    settings |= {"warmup_steps": 0, "schedule": "constant", "batch_size": 8, "drop_last": False}
    samples = {"x": np.zeros((20, 3), np.float32), "labels": np.zeros(20, np.int64)}
    found = hypotheses(settings, samples, ["a.weight", "b.weight"], ["a.drop", "b.drop"], 3)
    changes = [json.dumps(change) for change in found.values()]
    assert len(changes) == len(set(changes)) and len(found) > 80


# ---- ports: the command alone -------------------------------------------------------------------

CLASSIFIER = ROOT / "examples" / "text_classifier"
LOSS = 'F.cross_entropy(outputs["logits"], inputs["labels"])'


def test_a_gap_of_a_port_is_found_by_its_training(tmp_path):
    """The Paddle port's loss smooths its labels: what a user types, from red to the cause."""
    pair = shutil.copytree(CLASSIFIER, tmp_path / "a port" / "smoothed")
    change(pair / "paddle_model.py", LOSS, LOSS[:-1] + ", label_smoothing=0.1)")
    twincheck("step5", pair, "--no-report", status=1)
    said = twincheck("why", pair, status=1)
    assert "smoothed: paddle's losses part from the reference's at step 1: " in said
    first = next(line for line in said.splitlines() if "reproduces" in line)
    assert first.endswith("digits: labels are smoothed by 0.1"), said
    told = json.loads((pair / "log" / "step5_train" / "smoothed" / "why.json").read_text())
    assert told["sides"][0]["explained"] and told["sides"][0]["trials"][0]["fits"]
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_what_is_alike_has_nothing_to_explain(trained):
    said = twincheck("why", PAIR, "--out", trained, "--steps", "20")
    assert "do not part from the reference's up to step 20: 20 were compared" in said


def test_without_a_training_there_is_nothing_to_explain(tmp_path):
    said = twincheck("why", PAIR, "--out", tmp_path / "none", status=2)
    assert "error: there is no training of the pair as it is now" in said


def test_losses_that_begin_later_than_is_looked_at(trained, tmp_path):
    file = tmp_path / "late.csv"
    file.write_text("step,loss\n40,1.5\n41,1.4\n42,1.4\n")
    said = twincheck(
        "why", PAIR, "--out", trained, "--paddle-losses", file, "--steps", "20", status=2
    )
    assert "no step is in both logs" in said
