"""Training and forecasting a series: early stopping, gone on with bit for bit."""

import json
import sys

import numpy as np
import pytest
from builders import arrays_of, ended, killed
from checkout import CHECKS, Checkout

pytestmark = pytest.mark.slow

# The epoch with the largest error is the best one here: every later one is worse.
EARLY = """
TRAIN["seasons"] |= {"lr": 5e-4, "schedule": "type1", "best": ("largest", "mse"), "patience": 2}
"""
OPTIONS = ("--model", "informer", "--no-report", "--checkpoint-every", "5")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    copy = Checkout(tmp_path_factory.mktemp("forecasting"))
    path = copy.path("common/models/informer/case.py")
    path.write_text(path.read_text() + EARLY)
    series = copy.path("fake_data/seasons.csv")  # its last rows are enough, and train faster
    head, *rows = series.read_text().splitlines(keepends=True)
    series.write_text("".join([head, *rows[-900:]]))
    return copy


@pytest.fixture(scope="module")
def whole(checkout):
    out = checkout.elsewhere / "whole"
    rows = out / "rows.json"
    ended(0, checkout.check(5, *OPTIONS, "--out", str(out), "--json", str(rows)))
    return out, json.loads(rows.read_text())["rows"]


def curves(out):
    """Return what both sides' trainings left."""
    return {
        f"{side}/{key}": values
        for side in ("torch", "paddle")
        for key, values in arrays_of(out / f"step5_train/informer/train_full_{side}.npy").items()
    }


def test_both_sides_stop_early_and_say_so(whole):
    out, rows = whole
    verdicts = {row["key"]: row["verdict"] for row in rows}
    assert verdicts["train/early_stop/torch"] == verdicts["train/early_stop/paddle"] == "IDENTICAL"
    assert verdicts["train/final_forecasts"] in ("IDENTICAL", "ROUNDING")
    assert not any(key.startswith("train/final_predictions") for key in verdicts)
    found = curves(out)
    for side in ("torch", "paddle"):
        errors = found[f"{side}/curve/mse"]
        assert len(errors) == 3 and errors.argmax() == 0  # of four epochs, the second and third
        assert not any("accuracy" in key for key in found)
        log = (out / "step5_train" / "informer" / f"train_{side}.log").read_text()
        assert "stops early: 2 epochs brought nothing better" in log and "mse: " in log
        rates = found[f"{side}/curve/lr"].reshape(3, -1)
        assert np.allclose(rates, 5e-4 * np.array([[1.0], [1.0], [0.5]]), rtol=1e-12)


def test_a_training_that_stops_early_is_gone_on_with_bit_for_bit(checkout, whole):
    out = checkout.elsewhere / "killed"
    command = [sys.executable, str(checkout.path(CHECKS[5])), *OPTIONS, "--out", str(out)]
    kept = out / "step5_train" / ".checkpoints" / "informer"
    killed(command, lambda: len([*kept.glob("*-full-0/last.npz")]) == 2, checkout.elsewhere)
    assert not list((out / "step5_train").glob("informer/train_full_*.npy"))
    ended(0, checkout.check(5, *OPTIONS, "--out", str(out), "--resume"))
    before, after = curves(whole[0]), curves(out)
    assert set(before) == set(after)
    assert not [key for key in before if before[key].tobytes() != after[key].tobytes()]
