"""Whole logs: planted faults, where they start, who made the logs, and the command."""

import json
import os
import shutil

import numpy as np
import pytest
from builders import RUNS, four, printed, sealed_log, write_log

from twincheck.common.compare import main
from twincheck.common.logs.independence import check_independence
from twincheck.common.logs.sidecar import Sidecar, read_sidecar, write_sidecar
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.row import FED, OF_OPERATORS
from twincheck.common.verdict.tensor import judge_tensor


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def write(path, arrays, told=None):
    write_log(path, arrays, told)
    return path


def runs(ref: dict, cand: dict | None = None) -> dict[str, dict]:
    """The four logs of float values on either side, with each run's own rounding."""
    rng = np.random.default_rng(1)
    rows = {key: four(rng, values, (cand or ref)[key]) for key, values in ref.items()}
    return {name: {key: row[i] for key, row in rows.items()} for i, name in enumerate(RUNS)}


def verdicts(judgement) -> dict[str, str]:
    return {row.key: row.verdict for row in judgement.rows}


def forward(change=None, feed=None) -> dict[str, np.ndarray]:
    """A small forward pass in float64, in which each value depends on the one before.

    change  (name, value) -> what a port with a fault computes; feed teaches it
    """
    found = {"x": np.random.default_rng(2).normal(size=(4, 8))}
    for i in range(4):
        weight = np.random.default_rng(10 + i).normal(size=(8, 8))
        value = np.tanh((feed or found)[list(found)[-1]] @ weight)
        found[f"layer{i}"] = change(f"layer{i}", value) if change else value
    return found


network = forward  # the reference's


# ---- reprod_log's weaknesses: each passes there, or crashes, and fails here ----------------------


def test_a_missing_key_is_named():
    judgement = judge_logs({"a": np.ones(2), "b": np.ones(2)}, {"c": np.ones(2), "a": np.ones(2)})
    notes = {row.key: row.note for row in judgement.rows if row.verdict == "INVALID"}
    assert notes == {"b": "missing on the paddle side", "c": "missing on the torch side"}
    assert judgement.exit_code == 1 and judgement.guide_passed is False


def test_a_key_that_only_the_float64_logs_lack():
    logs = runs(network())
    del logs["cand64"]["layer2"]
    judgement = judge_logs(*logs.values())
    row = next(row for row in judgement.rows if row.key == "layer2")
    assert (row.verdict, row.note) == ("INVALID", "missing in paddle's float64 log")
    del logs["ref64"]["layer2"]
    judgement = judge_logs(*logs.values())
    assert verdicts(judgement)["layer2"] == "CLOSE" and judgement.exit_code == 0
    assert [row.key for row in judgement.rows if not row.in_float64] == ["layer2"]
    assert not any(row.origin for row in judgement.rows), "it is no difference"


# ---- whole logs ---------------------------------------------------------------------------------


def off_in(*names):
    """A fault of 1 % in the layers named."""
    return lambda name, value: value * 1.01 if name in names else value


def test_what_was_only_passed_on_is_carried_and_every_origin_is_found():
    change = off_in("layer1", "layer3")
    local = forward(change, feed=network())
    judgement = judge_logs(*runs(network(), forward(change)).values(), teacher_forced=local)
    assert list(verdicts(judgement).values())[2:] == ["DIVERGED", "CARRIED", "DIVERGED"]
    assert [row.key for row in judgement.rows if row.origin] == ["layer1", "layer3"]
    assert (judgement.verdict, judgement.exit_code) == ("DIVERGED", 1)
    carried = next(row for row in judgement.rows if row.key == "layer2")
    assert carried.note == "right on the reference's input"
    assert [row.fed for row in judgement.rows] == ["", "", "", FED, FED]


def test_a_constant_excuses_what_carries_it_and_hides_no_bug_behind_it(tmp_path):
    def constant(name, value):
        return value * (1 + 2e-7) if name == "layer0" else value

    local = forward(constant, feed=network())
    logs = runs(network(), forward(constant))
    logs["cand64"]["layer2"] = logs["ref64"]["layer2"] * (1 + 1e-6)  # amplified on the way
    sidecar = {"inexact": {"layer0": {"selu": 2e-7}}}
    local = write(tmp_path / "teacher_forced.npy", local, sidecar)
    exact = dict(teacher_forced=local, exact=network())
    judgement = judge_logs(*logs.values(), **exact)
    found = verdicts(judgement)
    assert found["layer0"] == "CONSTANT" and found["layer2"] == "CARRIED"
    assert "free" in judgement.needs and judgement.exit_code == 1, (
        "that it is as large is not shown"
    )
    judgement = judge_logs(*logs.values(), **exact, free=network())
    assert verdicts(judgement)["layer2"] == "CONSTANT"
    assert [row.proof for row in judgement.rows][1::2] == [OF_OPERATORS] * 2
    assert (judgement.verdict, judgement.exit_code) == ("CONSTANT", 0)
    more = network() | {"layer2": network()["layer2"] * (1 + 1e-2)}
    judgement = judge_logs(*logs.values(), **exact, free=more)
    assert verdicts(judgement)["layer2"] == "CARRIED" and judgement.exit_code == 1

    def both(name, value):
        return off_in("layer2")(name, constant(name, value))

    local = write(tmp_path / "teacher_forced.npy", forward(both, feed=network()), sidecar)
    exact = forward(off_in("layer2"), feed=network())
    judged = runs(network(), forward(both)).values()
    judgement = judge_logs(*judged, teacher_forced=local, exact=exact)
    assert verdicts(judgement)["layer2"] == "DIVERGED" and judgement.exit_code == 1
    assert [row.key for row in judgement.rows if row.origin] == ["layer0", "layer2"]
    assert judgement.first_diverged == "layer2"


def test_the_batch_axis_comes_from_the_sidecar(tmp_path):
    values = {"main/y": normal((64, 2000))}
    logs = runs(values)
    wrong = logs["cand64"]["main/y"].copy()
    wrong[17] *= 1 + 1e-11
    logs["cand64"]["main/y"] = wrong
    paths = [write(tmp_path / f"{name}.npy", log) for name, log in logs.items()]
    assert judge_logs(*paths).verdict == "ROUNDING"
    write_sidecar(paths[0], Sidecar(batches={"": 5, "main/": 64}))
    row = judge_logs(*paths).rows[0]
    assert (row.verdict, row.sample, row.worst_index[0]) == ("DIVERGED", 17, 17)


def test_gradients_share_a_cap_and_have_no_batch_axis(tmp_path):
    big, gauge = normal((4, 4)), np.zeros(4)
    logs = runs({"m/grad/w": big, "m/grad/k.bias": gauge, "m/grad/zero": gauge})
    for name, size in zip(RUNS, (3e-10, 3e-10, 7e-19, 7e-19), strict=True):
        noise = size * normal(4)
        logs[name]["m/grad/k.bias"] = noise.astype(logs[name]["m/grad/w"].dtype)
    paths = [write(tmp_path / f"{name}.npy", log) for name, log in logs.items()]
    write_sidecar(paths[0], Sidecar(batches={"": 4}))
    judgement = judge_logs(*paths)
    assert judgement.exit_code == 0
    notes = {row.key: row.note for row in judgement.rows}
    assert notes["m/grad/k.bias"] == "zero in exact arithmetic: noise on both sides"
    assert notes["m/grad/zero"] == "all zero" and notes["m/grad/w"] == ""
    assert {row.key[7:]: row.shows_nothing for row in judgement.rows if row.shows_nothing} == {
        "k.bias": "noise",
        "zero": "all zero",
    }
    assert any("1 gradients are zero in exact arithmetic" in note for note in judgement.notes)


# ---- provenance ---------------------------------------------------------------------------------


def pair_of_logs(folder, ref=None, cand=None, same=False):
    """Two logs with sidecars: (paths), with entries changed on either side."""
    logs = runs(network())
    told = dict(schema=1, step="forward", model="m", preset="default", seed=0, seal="")
    told |= dict(dtype="float32", inputs_sha256="i", weights_sha256="w")
    second = logs["ref32"] if same else logs["cand32"]
    return [
        sealed_log(folder / f"forward_{side}.npy", values, **{"side": side, **told, **(more or {})})
        for side, values, more in (("torch", logs["ref32"], ref), ("paddle", second, cand))
    ]


def problems_of(paths):
    return check_independence(*paths, *(read_sidecar(path) or Sidecar() for path in paths))


AS_PADDLES = "/site-packages/paddle/__init__.py"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        (dict(cand={"framework": "torch"}), "forward_paddle.npy was made by torch, not paddle"),
        (dict(ref={"framework": None}), "forward_torch.npy was made by None, not torch"),
        (dict(cand={"framework_file": ""}), "names no file that paddle was imported from"),
        (dict(ref={"framework_file": AS_PADDLES}), f"torch was imported from {AS_PADDLES}"),
        (dict(cand={"frameworks_loaded": ["paddle", "torch"]}), "had loaded paddle and torch"),
        (dict(cand={"frameworks_loaded": []}), "its process had not loaded paddle"),
        (dict(cand={"seed": 1}), "from different seeds: 0 and 1"),
        (dict(cand={"preset": "other"}), "from different presets: 'default' and 'other'"),
        (dict(cand={"step": "loss"}), "from different steps"),
        (dict(cand={"model": "n"}), "from different models"),
        (dict(cand={"probes": ["norm"]}), "from different probes (--probe): [] and ['norm']"),
        (dict(cand={"dtype": "float64"}), "from different dtypes"),
        (dict(cand={"inputs_sha256": "j"}), "from different inputs"),
        (dict(cand={"weights_sha256": "v"}), "from different weights"),
        (dict(same=True), "hold the same bits: one side's log was given twice"),
        (dict(cand={"transplanted": ["softmax"], "frameworks_loaded": ["paddle", "torch"]},
              same=True), ""),  # excuses two frameworks and equal bits
    ],
)  # fmt: skip
def test_logs_that_show_nothing_are_named(tmp_path, changes, said):
    problems = problems_of(pair_of_logs(tmp_path, **changes))
    assert bool(problems) == bool(said) == any(said in problem for problem in problems)


def test_stale_sidecars(tmp_path):
    paths = pair_of_logs(tmp_path)
    write(paths[1], runs(forward(off_in("layer0")))["ref32"])
    (stale,) = problems_of(paths)
    assert stale == "forward_paddle.npy is not the file that its sidecar describes: run it again"
    os.remove(paths[1].with_suffix(".json"))
    (unknown,) = problems_of(paths)
    assert unknown == "forward_paddle.npy has no sidecar: nobody knows what made it"


@pytest.mark.parametrize("shapes", [((), (1,)), ((1,), ()), ((1, 1), (1,))])
def test_a_number_is_one_whatever_its_shape(shapes):
    """Paddle before 2.5 had no tensors without axes."""
    for more, verdict in ((0.0, "IDENTICAL"), (5e-7, "CLOSE"), (0.1, "UNDECIDED")):
        ref, cand = (np.full(s, 2 + off, "f4") for s, off in zip(shapes, (0.0, more), strict=True))
        row = judge_tensor("loss", ref, cand)
        assert row.verdict == verdict
    told = judge_logs({"loss": ref}, {"loss": cand}).notes
    assert any("1 of the rows are one number" in note and "loss" in note for note in told)
    assert "one number" not in str(judge_logs({"loss": ref}, {"loss": ref + 1}).notes)
    assert judge_tensor("loss", np.ones(shapes[0]), np.full(shapes[1], np.nan)).verdict == "INVALID"
    assert judge_tensor("loss", np.ones(2), np.ones((1, 2))).verdict == "INVALID"


# ---- the command --------------------------------------------------------------------------------


def files(folder, logs):
    return {name: str(write(folder / f"{name}.npy", log)) for name, log in logs.items()}


def test_the_command_on_a_correct_port(tmp_path, capsys):
    paths = files(tmp_path, runs(network()))
    arguments = [paths["ref32"], paths["cand32"]]
    assert main(arguments + ["--ref64", paths["ref64"], "--cand64", paths["cand64"]]) == 0
    out = capsys.readouterr().out
    assert "ref32.npy (torch) against cand32.npy (paddle): ROUNDING" in out
    assert "provenance unknown" in out and "the guide's rule (mean |a-b|, 1e-6): passed" in out
    assert "CLOSE" in printed(capsys, 0, main(arguments)).out


def test_the_command_says_how_many_how_much_where_and_how_much_was_allowed(tmp_path, capsys):
    paths = files(tmp_path, runs(network(), forward(off_in("layer1"))))
    arguments = [paths["ref32"], paths["cand32"], "--ref64", paths["ref64"]]
    target = tmp_path / "rows.json"
    assert main(arguments + ["--cand64", paths["cand64"], "--json", str(target)]) == 1
    out = capsys.readouterr().out
    assert "first that is not aligned: layer1: DIVERGED" in out
    assert "of 32 elements beyond" in out and "worst at [" in out and ": torch " in out
    report = json.loads(target.read_text())
    assert {"verdict", "exit_code", "guide_passed", "first_diverged", "rows"} <= set(report)
    assert report["verdict"] == "DIVERGED" and report["exit_code"] == 1
    assert report["guide_passed"] is False and report["first_diverged"] == "layer1"
    for row in report["rows"]:
        assert type(row["step"]) is int and type(row["model"]) is str
        assert isinstance(row["mean_abs"], float) and isinstance(row["max_abs"], float)
    found = [row["verdict"] for row in report["rows"]]
    assert found[1] == "ROUNDING" and found[2:] == ["DIVERGED"] * 3
    assert [row["key"] for row in report["rows"] if row["origin"]] == ["layer1"]


def test_one_side_given_twice_is_refused_unless_it_is_meant(tmp_path, capsys):
    paths = files(tmp_path, runs(network()))
    twice = [paths["ref32"], paths["ref32"]]
    copy = str(shutil.copy(paths["ref32"], tmp_path / "copy.npy"))
    made_by = {}
    for name, side, log in (("a", "torch", "ref32"), ("b", "torch", "cand32"), ("c", "paddle", "")):
        values = runs(network())[log or "ref32"]
        made_by[name] = str(sealed_log(tmp_path / f"{name}.npy", values, side))
    for logs, said in (
        (twice, "ref32.npy was given twice"),
        ([paths["ref32"], copy], "hold the same bytes, and no sidecars say that two frameworks"),
        ([made_by["a"], made_by["b"]], "a.npy and b.npy were both made by torch"),
        ([made_by["a"], copy], "hold the same bytes"),
        ([paths["ref32"], paths["cand32"], "--ref64", copy, "--cand64", copy], "given twice"),
    ):
        out, error = printed(capsys, 2, main(logs))
        assert out == "" and said in error and "--allow same" in error and error.count("\n") == 1
    assert main([made_by["a"], made_by["c"]]) == 0  # the same bits, and two frameworks made them
    # Rates and scores are equal by right; ten equal losses are one side's, run twice.
    for dtype, status in (("f8", 0), ("f4", 2)):
        numbers = {f"{dtype}_{at}": np.array(0.1 * at, dtype) for at in range(10)}
        logs = [str(write(tmp_path / f"{dtype}_{side}.npy", numbers)) for side in ("d", "e")]
        assert main(logs) == status
    few = {name: np.float32(0.9) for name in ("acc", "f1")}
    assert main([str(write(tmp_path / f"few_{side}.npy", few)) for side in ("d", "e")]) == 0
    assert main([made_by["a"], made_by["b"], "--allow", "same"]) == 0
    capsys.readouterr()
    out = printed(capsys, 0, main([*twice, "--allow", "same"])).out
    assert "IDENTICAL" in out and "hold the same bits" in out and "to the last bit" in out


def test_nothing_to_compare_is_no_pass(tmp_path, capsys):
    path = str(write(tmp_path / "a.npy", {}))
    target = tmp_path / "rows.json"
    assert main([path, path, "--json", str(target), "--allow", "same"]) == 2
    assert "nothing was compared" in capsys.readouterr().out
    report = json.loads(target.read_text())
    assert (report["exit_code"], report["guide_passed"], report["rows"]) == (2, None, [])


def test_bad_input_is_one_sentence_and_status_2(tmp_path, capsys):
    good = str(write(tmp_path / "a.npy", {"a": np.ones(4)}))
    other = str(write(tmp_path / "b.npy", {"a": np.ones(4, np.float32)}))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "empty.npy").write_bytes(b"")
    for arguments, said in (
        ([good, str(tmp_path / "absent.npy")], "No such file"),
        ([good, str(tmp_path / "broken.npy")], "cut off"),
        ([good, str(tmp_path / "empty.npy")], "an empty file"),
        ([good, str(tmp_path)], "not a plain file"),
        ([good, good, "--ref64", good], "are given together or not at all"),
        ([good, other, "--json", str(tmp_path / "no" / "x.json")], "No such file"),
    ):
        error = printed(capsys, 2, main(arguments)).err
        assert said in error and error.count("\n") == 1 and "Traceback" not in error
    (tmp_path / "a.json").write_text("{")
    assert "this sidecar cannot be read" in printed(capsys, 2, main([good, good])).err
    for arguments in ([], [good], [good, good, "--wrong"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and "--help" in error and error.count("\n") == 1


def test_internal_errors_are_a_sentence_unless_debug(tmp_path, capsys, monkeypatch):
    logs = [str(write(tmp_path / f"{n}.npy", {n: np.ones(4)})) for n in "ab"]

    def broken(*args, **kwargs):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("twincheck.common.compare.judge_logs", broken)
    error = printed(capsys, 2, main(logs)).err
    assert "internal error at " in error and "ZeroDivisionError: planted; --debug" in error
    with pytest.raises(ZeroDivisionError):
        main([*logs, "--debug"])
