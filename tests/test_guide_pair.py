"""The guide's pair: the guide's keys, the full log's bits, and nothing that somebody changed."""

import json
import shutil

import numpy as np
import pytest
from builders import arrays_of, edit_json, printed, sealed_log, write_log
from forged import contents, judge, write_result

from twincheck.common import compare
from twincheck.common.logs.guide_pair import _selected, bring_pair, pair_problems
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import Sidecar, read_sidecar, sidecar_path
from twincheck.common.report.scores import scores_of

SIDES = ("torch", "paddle")
ONE, TWO, INT = np.float32([[1, 2]]), np.float64(0.5), np.int64(3)

# ---- which keys ---------------------------------------------------------------------------------

TWO_HEADS = ("body.logits", "logits", "logits#2", "states/0")
STEPS = [
    f"{rule}/{i:03d}/{k}" for rule in ("adam", "sgd") for i in range(10) for k in ("loss", "lr")
]
SCORES = dict.fromkeys(("train/batches", "accuracy", "macro_f1"), TWO)
LOSSES = {f"main/{key}": ONE for key in ("logits", "loss", "losses/sum", "grad/w", *STEPS)}
ALIKE = {"outputs": {"a": ["a/b/logits"], "b": ["b/logits"]}, "batches": {"a/": 1, "b/": 1}}
# What a log holds, what its sidecar tells, and the guide's key -> the log's.
SELECTED = {
    "logits of every head, nothing from inside and no text decoded token by token": (
        "forward",
        {f"{case}/{key}": ONE for case in ("lm", "cls") for key in TWO_HEADS}
        | {"qa/start_logits": ONE, "qa/end_logits": ONE, "decode/token_4/logits": ONE},
        {
            "outputs": {c: [f"{c}/logits#2", f"{c}/states/0"] for c in ("lm", "cls")}
            | {"qa": ["qa/start_logits", "qa/end_logits"]},
            "batches": dict.fromkeys(("lm/", "cls/", "qa/", "decode/"), 1),
        },
        {"logits": "lm/logits#2", "cls/logits": "cls/logits#2"}
        | {key: key for key in ("qa/start_logits", "qa/end_logits")},
    ),
    "what a model without logits returns": (
        "forward",
        dict.fromkeys(("embed", "boxes", "more/0", "perturbed/output", "perturbed/embed"), ONE),
        {
            "outputs": {"main": ["boxes", "more/0"], "perturbed": ["perturbed/output"]},
            "batches": {"": 1, "perturbed/": 1},
        },
        {key: key for key in ("boxes", "more/0", "perturbed/output")},
    ),
    "scores, as the guide calls them": (
        *("metric", SCORES | {"train/batches": INT, "test/logits": ONE}, {}),
        {"acc": "accuracy", "macro_f1": "macro_f1"},
    ),
    # By its name, or since it is beyond 1; not where nothing can be divided by it.
    "a score that is no share of 1 is over torch's": (
        "train_align",
        {"mse": TWO, "corr": -TWO, "mape": TWO, "speed": np.float64(-40.0)}
        | {"mae": np.float64(0), "rse": np.float64("nan")},
        {},
        {"mse_over_torch": "mse", "speed_over_torch": "speed"}
        | {key: key for key in ("corr", "mae", "rse")},
    ),
    "the loss that is trained with": (
        *("loss", LOSSES | {"other/loss": ONE}, {"batches": {"main/": 1, "other/": 1}}),
        {"loss": "main/loss", "other/loss": "other/loss"},
    ),
    "ten steps of SGD": (
        *("bp_align", LOSSES, {"batches": {"main/": 1}}),
        {f"{k}_{i}": f"main/sgd/{i:03d}/{k}" for i in range(10) for k in ("loss", "lr")},
    ),
    "keys that would be one, behind their cases": (
        *("forward", {"a/b/logits": ONE, "b/logits": ONE}, ALIKE),
        {key: key for key in ("a/b/logits", "b/logits")},
    ),
    "no tensor that is there as sums only": (
        *("forward", {"a/b/logits": ONE, "b/logits": ONE}, ALIKE | {"sums": {"b/logits": [1, 2]}}),
        {"b/logits": "a/b/logits"},
    ),
}


@pytest.mark.parametrize("what", SELECTED)
def test_the_guide_s_pair_has(tmp_path, what):
    stem, arrays, told, keys = SELECTED[what]
    write_log(tmp_path / "a.npy", arrays)
    with read_log(tmp_path / "a.npy") as log:
        assert _selected(stem, log, Sidecar(**told), log)[0] == keys


def scores_in_full(folder, torch, paddle):
    """Full logs of step 5 with these scores, and the pair that is selected from them."""
    for side, scores in (("torch", torch), ("paddle", paddle)):
        arrays = {name: np.float64(value) for name, value in scores.items()}
        path = folder / f"train_align_all_{side}.npy"
        sealed_log(path, arrays, side, step="train_align_all")
    bring_pair(folder, "train_align", anew=True)


def test_of_large_and_small_scores_the_same_part_is_allowed(tmp_path):
    """11.1658 against 11.1640 is 0.016 %; 0.0100 against 0.0101, within 0.0015, is 1 %."""
    torch = {"accuracy": 0.5, "corr_informer": 11.1658, "mse": 0.0100}
    scores_in_full(tmp_path, torch, {"accuracy": 0.501, "corr_informer": 11.1640, "mse": 0.0101})
    logs = [arrays_of(tmp_path / f"train_align_{side}.npy") for side in SIDES]
    assert [float(values) for values in logs[0].values()] == [0.5, 1.0, 1.0]
    off = {key: float(abs(logs[0][key] - logs[1][key])) for key in logs[1]}
    assert off["acc"] == pytest.approx(1e-3) and off["mse_over_torch"] == pytest.approx(1e-2)
    assert off["corr_informer_over_torch"] == pytest.approx(0.0018 / 11.1658)
    assert pair_problems(tmp_path, "train_align") == []
    shown = scores_of(tmp_path, "train_align", 0.0015)
    assert [(s.name, s.torch, s.passed) for s in shown] == [
        ("acc", 0.5, True),
        ("corr_informer", 11.1658, True),
        ("mse", 0.0100, False),
    ]
    off = [score.of_torchs(score.difference) for score in shown]
    assert off == ["0.001", "0.016 % of torch's", "1 % of torch's"]
    assert [s.of_torchs(s.limit) for s in shown] == ["0.0015", *["0.15 % of torch's"] * 2]


# ---- the pair beside its full logs --------------------------------------------------------------


def write_anew(path, change):
    """A log with `change(arrays)` made to it, its sidecar's hash and seal made to fit."""
    arrays, told = arrays_of(path), vars(read_sidecar(path))
    change(arrays)
    left = ("log_sha256", "seal")
    sealed_log(path, arrays, **{name: of for name, of in told.items() if name not in left})


def one_bit(arrays):
    arrays["output"].reshape(-1).view(np.uint8)[0] ^= 1


CHANGES = {
    "one bit": one_bit,
    "wider": lambda arrays: arrays.update(output=arrays["output"].astype(np.float64)),
    "one more": lambda arrays: arrays.update(layer=arrays["output"]),
    "none left": lambda arrays: arrays.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_pair_that_somebody_changed_is_refused(folder, capsys, change):
    """Even with a sidecar that was made to fit."""
    write_anew(folder / "forward_paddle.npy", CHANGES[change])
    before = contents(folder)
    said = printed(capsys, 2, judge(folder, "--no-report")).err
    assert "forward_all_paddle.npy" in said and "delete forward_paddle.npy" in said
    assert contents(folder) == before
    for name in ("forward_paddle.npy", "forward_paddle.json"):
        (folder / name).unlink()
    assert judge(folder, "--no-report") == 0  # as the sentence says


def test_a_pair_with_another_maker_or_without_one_is_refused(folder, capsys):
    path = folder / "forward_torch.json"
    edit_json(path, framework_version="9.9")
    assert judge(folder, "--no-report") == 2
    assert "forward_torch.json does not say what" in capsys.readouterr().err
    path.unlink()
    assert "says what it was selected from" in printed(capsys, 2, judge(folder, "--no-report")).err


def test_a_missing_pair_and_one_of_other_logs_are_selected_anew(folder, tmp_path):
    """And nothing else in the folder is touched."""
    before = contents(folder)
    for name in ("forward_torch.npy", "forward_torch.json", "forward_paddle.json"):
        (folder / name).unlink()
    (folder / "forward_paddle.npy").unlink()
    assert judge(folder, "--no-report") == 0 and contents(folder) == before

    write_result(tmp_path / "other", seed=5)
    other = tmp_path / "other" / "forward_all_paddle.npy"
    write_anew(other, one_bit)
    bring_pair(tmp_path / "other", "forward")
    for name in ("forward_paddle.npy", "forward_paddle.json"):
        shutil.copy(tmp_path / "other" / name, folder / name)
    assert contents(folder) != before
    assert judge(folder, "--no-report") == 0 and contents(folder) == before


def test_the_guides_own_keys_and_every_tensor_are_two_answers(folder, capsys):
    """A probe beyond 1e-6 that float64 explains: what a contest entry hands in passes."""
    for side, sign in (("torch", 1), ("paddle", -1)):
        off = np.float32(2e-6 * sign)
        write_anew(
            folder / f"forward_all_{side}.npy",
            lambda arrays, off=off: arrays.update(layer=arrays["layer"] + off),
        )
    report = folder / "report.json"
    assert judge(folder, "--no-report", "--json", str(report)) == 0
    told = json.loads(report.read_text())
    assert (told["guide_passed"], told["guide_all_passed"]) == (True, False)
    said = capsys.readouterr().out
    assert "passed / FAIL" in said and "the keys that it asks for pass" in said


def test_logs_without_any_of_the_guide_s_values_have_no_pair(folder, capsys):
    for side in SIDES:
        for name in (f"forward_{side}.npy", f"forward_{side}.json"):
            (folder / name).unlink()
        path = sidecar_path(folder / f"forward_all_{side}.npy")
        edit_json(path, outputs={})
    report = folder / "report.json"
    assert judge(folder, "--json", str(report)) == 0
    told = json.loads(report.read_text())
    assert (told["guide_passed"], told["guide_all_passed"]) == (None, True)
    assert "none of the values that the guide asks for" in capsys.readouterr().out
    assert not (folder / "forward_torch.npy").exists() and not list(folder.glob("*.log"))


def test_compare_finds_the_pair_s_values_in_the_full_float64_logs(tmp_path, capsys):
    write_result(tmp_path / "a", outputs={"lm": ["lm/output"]}, batches={"lm/": 4}, prefix="lm/")
    logs = [str(tmp_path / "a" / f"forward_{side}.npy") for side in SIDES]
    exact = [str(tmp_path / "a" / f"forward_all_{side}_fp64.npy") for side in SIDES]
    report = tmp_path / "report.json"
    options = ["--ref64", exact[0], "--cand64", exact[1], "--json", str(report)]
    assert compare.main([*logs, *options]) == 0
    (row,) = json.loads(report.read_text())["rows"]
    assert (row["key"], row["verdict"]) == ("output", "ROUNDING") and row["gap"] < 1e-14
