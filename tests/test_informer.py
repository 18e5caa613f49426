"""informer: both twins against the reference program; what its configuration and inputs are."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from checkout import Checkout
from informer_side import golden

from common.models.informer.case import CASES, CONFIGS, TARGETS, TRAIN, complete, make_inputs
from common.pair.case_hooks import best_score, training
from common.pair.metrics import forecast_scores
from common.pair.pairs import load_pair
from common.pair.schedules import schedule
from step5_train.training import stops_after

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_golden(side, dtype):
    done = subprocess.run(
        [*Checkout.interpreter, "-W", "ignore", HERE / "informer_side.py", side, dtype],
        env=os.environ | {"PYTHONPATH": f"{HERE.parent}:{HERE}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    arrays = golden(dtype)
    # The positions are a constant, which the golden file leaves out.
    positions = {f"{part}_embedding.position_embedding.pe" for part in ("enc", "dec")}
    if side == "torch":
        assert set(answer["names"]) == set(arrays["sd"]) | positions
    assert answer["pred"] <= 1e-5 * np.abs(arrays["out"]["pred"]).max()
    assert answer["loss"] <= 1e-5 * arrays["out"]["loss"]
    assert set(answer["gradients"]) == set(arrays["grad"])
    assert max(answer["gradients"].values()) <= 1e-5, answer["gradients"]
    assert answer["pred_eval"] <= 1e-5 * np.abs(arrays["out"]["pred_eval"]).max()


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"model": "transformer"}, "model is 'transformer'; allowed: 'informer', 'informer_stack'"),
        ({"attn": "probe"}, "attn is 'probe'; allowed: 'prob', 'full'"),
        ({"freq": "x"}, "freq is 'x'; allowed: 's', 't'"),
        ({"d_model": 15}, "d_model is 15; allowed: an even number from n_heads, which is 2"),
        ({"label_len": 30}, "label_len is 30; allowed: up to seq_len, which is 24"),
        ({"seq_len": 5001}, "seq_len is 5001; allowed: up to 5000 rows"),
        ({"e_layers": 0}, "e_layers is 0; allowed: an integer from 1"),
        ({"model": "informer_stack", "s_layers": "3,x"}, "s_layers is '3,x'; allowed: integers"),
        ({"dropout": 1.0}, "dropout is 1.0; allowed: from 0 to below 1"),
        ({"distil": 1}, "distil is 1; allowed: True, False"),
    ],
)
def test_a_configuration_that_means_nothing_is_a_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        complete(CONFIGS["default"] | change)


def test_the_reference_s_spellings_are_understood():
    stack = complete({"model": "informer_stack", "e_layers": [3, 2, 1], "out_len": 48})
    assert stack["e_layers"] == [3, 2, 1] and stack["pred_len"] == 48
    assert complete({"model": "informer_stack", "s_layers": "3,1"})["e_layers"] == [3, 1]
    assert [complete({"freq": text})["freq"] for text in ("15min", "4h", "t")] == ["t", "h", "t"]
    assert complete({})["d_model"] == 512 and complete({"root_path": "x"})["factor"] == 5


@pytest.mark.parametrize("name", CASES["default"])
def test_inputs_fit_the_configuration(name):
    row = CASES["default"][name]
    config = complete(CONFIGS["default"] | row.get("config", {}))
    inputs = make_inputs(config, 0, **row.get("inputs", {}))
    start = config["label_len"]
    assert inputs["x_enc"].shape == (3, config["seq_len"], config["enc_in"])
    assert inputs["labels"].shape == (3, config["pred_len"], config["c_out"])
    assert inputs["x_dec"].shape[1] == inputs["x_mark_dec"].shape[1] == start + config["pred_len"]
    assert not inputs["x_dec"][:, start:].any()
    if config["embed"] != "timeF":
        assert inputs["x_mark_enc"].dtype == np.int64 and inputs["x_mark_enc"].min() >= 0
    if row.get("inputs", {}).get("near_ties"):
        large = np.delete(inputs["x_enc"], [6, 18], axis=1)
        assert np.ptp(large, axis=1).max() == 0.0 and large.min() >= 2e4
        lengths = [samples.shape[0] for samples in inputs["index_samples"]]
        assert lengths == [24, 12, 18]  # two attentions of the encoder's, one of the decoder's
        # No row that differs, nor one that the convolution mixes it into.
        assert not {5, 6, 7, 17, 18, 19} & set(inputs["index_samples"][0].ravel().tolist())
    else:
        assert np.array_equal(inputs["x_dec"][:, :start], inputs["x_enc"][:, -start:])


def test_learning_rates_of_the_reference():
    rates = [1e-4 * schedule("type1", 0, 0, 10, 1e-4)(step) for step in range(0, 60, 10)]
    assert np.allclose(rates, [1e-4, 1e-4, 5e-5, 2.5e-5, 1.25e-5, 6.25e-6], rtol=1e-15)
    assert schedule("type1", 0, 0, 10)(19) == 1.0 and schedule("type1", 0, 0, 10)(20) == 0.5
    rates = [1e-4 * schedule("type2", 0, 0, 10, 1e-4)(10 * e) for e in (1, 2, 3, 4, 6, 9, 10, 20)]
    expected = [1e-4, 5e-5, 5e-5, 1e-5, 5e-6, 1e-6, 5e-7, 5e-8]
    assert np.allclose(rates, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "losses, patience, stop",
    [
        ([0.604, 0.586, 0.647, 0.648, 0.673], 3, 5),  # the reference run
        ([0.6, 0.7, 0.6, 0.7, 0.7], 3, np.inf),  # an equal one is a better one
        ([0.6, 0.7, 0.65, 0.64], 3, 4),
        ([np.nan, 0.7, 0.8], 1, 1),
        ([0.5, 0.4, 0.3], 1, np.inf),
    ],
)
def test_early_stopping(losses, patience, stop):
    settings = {"best": ("smallest", "mse")}
    assert stops_after([{"mse": loss} for loss in losses], settings, patience) == stop


def test_forecast_scores_by_hand():
    labels = np.array([[[1.0], [2.0]], [[3.0], [1.0]], [[2.0], [4.0]]])
    predictions = labels + np.array([[[0.5], [0.0]], [[-0.5], [1.0]], [[0.0], [-1.0]]])
    scores = forecast_scores(predictions, labels)
    assert scores["mae"] == 0.5 and np.isclose(scores["mse"], 2.5 / 6)
    assert np.isclose(scores["mape"], np.mean([0.5, 0, 0.5 / 3, 1, 0, 0.25]))
    assert np.isclose(scores["rse"], np.sqrt(2.5 / np.square(labels - labels.mean()).sum()))
    first = np.corrcoef([1.5, 2.5, 2.0], [1, 3, 2])[0, 1]
    second = np.corrcoef([2, 2, 3], [2, 1, 4])[0, 1]
    assert np.isclose(scores["corr"], (first + second) / 2)
    zero = forecast_scores(np.ones((2, 1, 1)), np.zeros((2, 1, 1)))
    assert zero["mape"] == np.inf and zero["mse"] == 1.0


def test_every_paper_s_preset_is_trained_as_the_reference_is():
    pair = load_pair("informer")
    for name, target in TARGETS.items():
        settings = training(pair, pair.config(name), name)
        assert (settings["schedule"], settings["patience"]) == ("type1", 3), name
        assert best_score(settings, {"mae": 1.0, "mse": 1.0}) == ("smallest", "mse")
        assert target["test_samples"] % settings["batch_size"] == 0
        complete(CONFIGS[name])
    assert TARGETS["etth1_m_24"]["test_samples"] == 2848 and {*TRAIN, "default"} == set(CONFIGS)


LOSSES = """
import sys
import numpy as np
from common import {side}_side as side
side.set_up("float64", "cpu", 0)
a, b = side.tensor(np.array([[0.5, 3.0]])), side.tensor(np.array([[1.0, 1.0]]))
for kind in side.REGRESSION_LOSSES:
    print(*side.array(side.regression_loss(a, b, kind, "none"))[0])
print(float(side.regression_loss(a, b, "huber", "sum", delta=0.5)))
for arguments in ((a, b[:, :1]), (a, b, "rmse")):
    try:
        side.regression_loss(*arguments)
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_regression_losses_by_hand(side):
    done = subprocess.run(
        [*Checkout.interpreter, "-W", "ignore", "-c", LOSSES.format(side=side)],
        env=os.environ | {"PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "0.25 4.0",
        "0.5 2.0",
        "0.125 1.5",
        "1.0",
        "regression_loss: predictions and labels are [1, 2] and [1, 1]; make them one",
        "regression_loss: kind is 'rmse'; allowed: ('mse', 'mae', 'huber')",
    ], done.stderr
