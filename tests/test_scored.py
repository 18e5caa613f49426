"""Whether the scores of steps 2 and 5 could show a difference, and what is said where not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from builders import sealed_log

from twincheck.common.logs.guide_pair import bring_pair
from twincheck.common.pair.case_hooks import data_cases, data_preset, trained_file
from twincheck.common.pair.data import load_arrays
from twincheck.common.pair.pairs import load_pair, load_pairs
from twincheck.common.pair.request import RunRequest
from twincheck.common.report.scores import what_hides
from twincheck.common.system.frameworks import SIDES
from twincheck.step2_metric import opinions
from twincheck.step5_train import answers

LABELS = np.tile(np.arange(4), 25)
MOSTLY = np.where(np.arange(100) < 20, (LABELS + 1) % 4, LABELS)  # 80 of 100 are right
TRAINED = replace(RunRequest("fastformer"), data_weights="perturbed")
FASTFORMER = load_pair("fastformer")
OWN = SimpleNamespace(name="own", case=SimpleNamespace(metric=None))
ANSWER = {2: opinions.scored, 5: answers.answered}


def said(folder, step, of_side, pair=FASTFORMER):
    """Return what a step says of logs with these keys; of_side: side -> key -> values."""
    for side, values in of_side.items():
        arrays = {"test/" * (step == 2) + name: v for name, v in values.items() if np.ndim(v)}
        single = {name: np.float64(v) for name, v in values.items() if not np.ndim(v)}
        logs = {"metric_all": arrays | single}
        if step == 5:
            logs = {"train_align_all": single, "train_full": arrays | {"test_samples": 100}}
        for stem, arrays in logs.items():
            told = {"step": stem, "preset": "digits", "weights": "initial"}
            sealed_log(folder / f"{stem}_{side}.npy", arrays, side, **told)
    bring_pair(folder, "metric" if step == 2 else "train_align", anew=True)
    answers, notes = ANSWER[step](folder, pair)
    return answers[f"scored_by_step_{step}"], "; ".join(n for n in notes if "hardly show" in n)


def both(**values):
    return dict.fromkeys(SIDES, values)


@pytest.mark.parametrize("step", [2, 5])
def test_a_constant_predictor_gets_a_note_and_one_that_learnt_gets_none(tmp_path, step):
    found, note = said(tmp_path, step, both(labels=LABELS, predictions=MOSTLY, accuracy=0.8))
    assert found["torch"] == found["paddle"] and note == ""
    of = {"labels": 4, "predicts": 4, "share": 0.25, "right": 0.8, "by_chance": False}
    assert found["torch"] == of
    constant = both(labels=LABELS, predictions=0 * LABELS, accuracy=0.25)
    found, note = said(tmp_path, step, constant)
    assert found["paddle"]["predicts"] == 1 and found["paddle"]["by_chance"]
    assert "each side predicts 1 of the 4 classes that the labels have" in note
    assert "each side is right in 0.250, the commonest label alone in 0.250" in note
    assert note.endswith("--weights PATH scores trained weights") == (step == 2)
    one = constant | {"torch": dict(labels=LABELS, predictions=MOSTLY, accuracy=0.8)}
    _, note = said(tmp_path, step, one, OWN if step == 2 else FASTFORMER)  # its own metric's too
    assert "paddle predicts 1 of the 4" in note and "torch" not in note


def test_scores_at_an_end_and_a_forecast_that_names_the_mean(tmp_path):
    perfect = both(labels=LABELS, predictions=LABELS, accuracy=1.0, macro_f1=1.0)
    found, note = said(tmp_path, 2, perfect)
    assert found["same"] == {"acc": 1.0, "macro_f1": 1.0}
    assert "acc, macro_f1 = 1 on both sides" in note
    _, note = said(tmp_path, 2, both(bleu=0.0), OWN)
    assert "bleu = 0 on both sides" in note
    for step in (2, 5):
        found, note = said(tmp_path, step, both(mse=0.09, rse=0.3))
        assert found["torch"] == {"explained": pytest.approx(0.91)} and note == ""
    assert "nearer to the labels" in what_hides({"same": {}, "torch": {"explained": -0.1}})
    assert said(tmp_path, 2, both(rse=1.3), OWN)[1] == ""  # its own metric's, whatever that is


# ---- the weights that step 2 scores -------------------------------------------------------------


@pytest.mark.parametrize("pair", load_pairs(("all",)), ids=lambda pair: pair.name)
def test_step_2_scores_trained_weights_and_no_training_starts_from_them(pair):
    path = trained_file(pair, data_preset(pair, "default"))
    assert [case.trained for case in data_cases(pair, TRAINED)] == [path]
    assert [case.trained for case in data_cases(pair, RunRequest())] == [None]
    assert data_cases(pair, replace(TRAINED, against="paddle"))[0].trained is None
    arrays = load_arrays(path)
    assert path.stat().st_size < 70_000
    assert all((v == v.astype(np.float16)).all() for v in arrays.values() if v.dtype.kind == "f")
