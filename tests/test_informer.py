"""informer: both twins against the reference program; what its configuration and inputs are."""

import importlib

import numpy as np
import pytest
from builders import assert_gradients, golden
from one_side import load

from twincheck.common.models.informer.case import (
    CONFIGS,
    TARGETS,
    TRAIN,
    complete,
)
from twincheck.common.pair.case_hooks import best_score, training
from twincheck.common.pair.metrics import forecast_scores
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.schedules import schedule
from twincheck.step5_train.training import stops_after

# As the golden file's model is built; `out_len`, as the reference's constructor calls pred_len.
CONFIG = {"model": "informer", "seq_len": 24, "label_len": 12, "out_len": 12, "factor": 2}
CONFIG |= {"d_model": 32, "n_heads": 4, "e_layers": 2, "d_layers": 2, "d_ff": 64, "dropout": 0.0}
CONFIG |= dict.fromkeys(("enc_in", "dec_in", "c_out"), 7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:When training, we now always track")  # Paddle's, of BatchNorm
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_golden(side, dtype):
    """A step in train mode, and then a forecast in eval mode, of other samples."""
    arrays = golden("informer2020", "informer_timeF" + ("_f64" if dtype == "float64" else ""))
    samples, later = (
        {f"index_samples/{i}": arrays[kind][f"{i}"] for i in range(len(arrays[kind]))}
        for kind in ("index_sample", "index_sample_eval")
    )
    inputs = arrays["in"] | samples
    one = load(side, "informer")
    # The positions are a constant, which the golden file leaves out.
    positions = {f"{part}_embedding.position_embedding.pe" for part in ("enc", "dec")}
    model = one.build(CONFIG, arrays["sd"], dtype, True, left=positions)
    given = one.tensors(inputs)
    outputs = one.call(model, given)
    loss = one.models.loss(outputs, given)
    loss.backward()
    model.eval()
    forecast = one.call(model, given | one.tensors(later))["predictions"]
    found = {"pred": outputs["predictions"], "loss": loss, "pred_eval": forecast}
    for name, value in found.items():
        wanted = arrays["out"][name]
        off = np.abs(one.side.array(value) - wanted).max()
        assert off <= 1e-5 * np.abs(wanted).max(), name
    assert_gradients(one.gradients(model), arrays["grad"])


def test_the_reference_s_spellings_are_understood():
    stack = complete({"model": "informer_stack", "e_layers": [3, 2, 1], "out_len": 48})
    assert stack["e_layers"] == [3, 2, 1] and stack["pred_len"] == 48
    assert complete({"model": "informer_stack", "s_layers": "3,1"})["e_layers"] == [3, 1]
    assert [complete({"freq": text})["freq"] for text in ("15min", "4h", "t")] == ["t", "h", "t"]
    assert complete({})["d_model"] == 512 and complete({"root_path": "x"})["factor"] == 5


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


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_regression_losses_by_hand(side):
    api = importlib.import_module(f"twincheck.{side}_side")
    a, b = api.tensor(np.array([[0.5, 3.0]])), api.tensor(np.array([[1.0, 1.0]]))
    losses = [api.array(api.regression_loss(a, b, k, "none")) for k in api.REGRESSION_LOSSES]
    assert np.concatenate(losses).tolist() == [[0.25, 4.0], [0.5, 2.0], [0.125, 1.5]]
    assert float(api.regression_loss(a, b, "huber", "sum", delta=0.5)) == 1.0
    with pytest.raises(ValueError, match=r"predictions and labels are \[1, 2\] and \[1, 1\]; make"):
        api.regression_loss(a, b[:, :1])
    with pytest.raises(ValueError, match=r"kind is 'rmse'; allowed: \('mse', 'mae', 'huber'\)"):
        api.regression_loss(a, b, "rmse")
