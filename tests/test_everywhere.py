"""No verdict depends on the processor: what tests and workers are told of it."""

import argparse
import json
import os
import runpy
import sys
from functools import partial
from unittest.mock import create_autospec

import pytest
from checkout import ROOT, change
from test_hard import few

from faults import everywhere, hard, run
from faults.everywhere import PATHS, USUAL, Outcome
from twincheck.common.system import processes as runner
from twincheck.common.system.errors import UserError

SETTING = "MKL_DEBUG_CPU_TYPE"


@pytest.mark.parametrize("is_amd", [True, False])
def test_tests_and_workers_have_the_setting_on_amd_alone(monkeypatch, is_amd):
    """Intel's MKL obeys it as well, and takes a path that no user has unless he asks for it."""
    monkeypatch.setattr(runner, "processor_is_amd", lambda: is_amd)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(SETTING, "")  # so that it is put back where it was not set
    monkeypatch.delenv(SETTING)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    workers = runner.environment().get(SETTING)
    runpy.run_path(str(ROOT / "conftest.py"))
    assert os.environ.get(SETTING) == workers == ("5" if is_amd else None)
    monkeypatch.setenv(SETTING, "4")
    runpy.run_path(str(ROOT / "conftest.py"))
    assert os.environ[SETTING] == runner.environment()[SETTING] == "4"


# ---- faults/everywhere.py -----------------------------------------------------------------------


def small(folder, monkeypatch):
    """Two pairs to judge on a path; the folder of theirs."""
    made = few(folder, "operators", ["silu", "tanh_saturated"])
    monkeypatch.setattr(hard, "PAIRS", folder)
    monkeypatch.setattr(hard, "RUNS", (hard.Run("operators", 1, "few"),))
    return made


ARGUMENTS = ("--faults", "none", "--workers", "1", "--step", "1")


@pytest.mark.slow
def test_a_path_is_compared_with_the_usual_one(tmp_path, monkeypatch, capsys):
    small(tmp_path, monkeypatch)
    options = ("--path", USUAL, "--path", "ATEN_CPU_CAPABILITY=default", "--json")
    assert everywhere.main([*ARGUMENTS, *options, str(tmp_path / "found.json")]) == 0
    assert "2 paths: 0 false alarms in 4 correct runs" in capsys.readouterr().out
    usual, other = json.loads((tmp_path / "found.json").read_text())
    assert usual["path"] == USUAL and usual["logs"].keys() == other["logs"].keys()
    # The setting is torch's own: Paddle's logs show that they are the same where nothing changes.
    key = "1 operators few paddle"
    assert usual["logs"][key] == other["logs"][key]


@pytest.mark.slow
def test_a_false_alarm_turns_it_red(tmp_path, monkeypatch, capsys):
    path = small(tmp_path, monkeypatch) / "paddle_model.py"
    change(path, "F.silu(x)", "F.silu(x * 1.0001)")
    assert everywhere.main([*ARGUMENTS, "--path", USUAL]) == 1
    said = capsys.readouterr().out
    assert "1 false alarms in 2 correct runs, 0 of 0 faults lost" in said
    assert f"{USUAL}: false alarm: step 1, operators few/silu: DIVERGED" in said


def asked(**changes):
    usual = dict(only=None, step=None, faults="few", workers=1)
    return argparse.Namespace(**usual | changes)


def test_what_the_catalogue_says_turns_a_path_red(monkeypatch):
    """One fault for each check of floats; lost ones and red correct runs count."""
    faults = everywhere.chosen_faults(asked())
    assert {fault.step for fault in faults} == {1, 3, 4} and len(faults) >= 15
    assert len(everywhere.chosen_faults(asked(faults="all"))) >= 160
    assert everywhere.chosen_faults(asked(only=["deep"])) == []

    def plant(faults, place, on_progress, python, caught=True, status=0):
        found = {"id": "x", "exit_code": 0, "caught": caught, "origin_right": True}
        control = {"step": 1, "model": "m", "first": "k", "exit_code": status}
        return {"faults": [found for _ in faults], "controls": [control]}

    monkeypatch.setattr(hard, "run", lambda *given, **options: [])
    true_plant = run.plant  # its signature: a call that it would refuse is refused here too
    for more, passed in (({}, True), ({"caught": False}, False), ({"status": 1}, False)):
        stand_in = create_autospec(true_plant, side_effect=partial(plant, **more))
        monkeypatch.setattr(run, "plant", stand_in)
        outcome = everywhere.try_path(USUAL, asked(), lambda text: None)
        assert outcome.passed == passed
        assert len(outcome.lost) == (len(faults) if more.get("caught") is False else 0)
        assert len(outcome.alarms) == more.get("status", 0)

    def broken(*given, **options):
        raise UserError("no report")

    monkeypatch.setattr(hard, "run", broken)
    outcome = everywhere.try_path(USUAL, asked(), lambda text: None)
    assert not outcome.passed and outcome.error == "no report"


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_the_environment_while_it_lasts(monkeypatch, path):
    monkeypatch.setenv("MKL_CBWR", "AVX")
    before = dict(os.environ)
    with everywhere.taking(path):
        name, _, value = path.partition("=")
        known = {one.partition("=")[0] for one in PATHS} & set(os.environ)
        assert {n: os.environ[n] for n in known} == {"OMP_NUM_THREADS": "1", name: value}
    assert dict(os.environ) == before


def test_a_setting_that_changes_no_bit_is_said_to_have_no_effect():
    logs = {"1 deep torch": "a", "1 deep paddle": "b"}
    usual = Outcome(USUAL, logs=logs)
    assert usual.changes(usual) == "–" and usual.changes(None) == "not known"
    assert Outcome("x", logs=dict(logs)).changes(usual) == "nothing: no effect here"
    assert Outcome("x", logs=logs | {"1 deep paddle": "c"}).changes(usual) == "paddle"
    assert Outcome("x", logs=dict.fromkeys(logs, "c")).changes(usual) == "torch and paddle"
    assert Outcome("x").changes(usual) == "not known"


def test_the_noisiest_row_is_told(tmp_path):
    """Against 16 times the reference's noise; not of gradients, optimizer steps or long sums."""
    row = {"noise_ref": 1e-5, "noise_cand": 8e-5, "scale": 1.0, "size": 48}
    names = {"a/attention.out:in/0": 1, "a/adam/003/loss": 10, "a/grad/w": 10, "a/few": 10}
    rows = [row | {"key": key, "noise_cand": 8e-5 * n} for key, n in names.items()]
    rows[3]["size"] = 1
    outcome = Outcome(USUAL)
    outcome.take(everywhere.see(hard.Run("operators", 1), {"rows": rows}, tmp_path))
    assert outcome.noisiest == 0.0
    outcome.take(everywhere.see(hard.Run("transformer", 1), {"rows": rows}, tmp_path))
    assert outcome.noisiest == pytest.approx(0.5)
    assert outcome.noisiest_row == "step 1, a/attention.out:in/0"


def test_unknown_folder_is_one_sentence(capsys):
    assert everywhere.main(["--only", "nowhere"]) == 2
    said = "--only nowhere: hard pairs are in casts, choices, decoder, deep"
    assert said in capsys.readouterr().err
