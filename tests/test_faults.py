"""The catalogue of planted faults is sound, and the machinery that plants them tells both ways.

`make faults` runs the whole catalogue and all correct hard pairs; here a few cheap ones stand for
the rest.
"""

import dataclasses
import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from builders import few_digits, write_log
from checkout import change

from faults import catalogue, correct, peers, run
from faults.catalogue import FAULTS
from faults.checkout import ROOT, complete, patched, text_of
from faults.correct import CORRECT, Correct
from faults.fault import HARD, USERS, Fault
from faults.worker import Worker
from twincheck.common.pair.pairs import built_in_models

BY_ID = {fault.id: fault for fault in FAULTS}
# One for each way in which a fault is planted or found.
REPRESENTATIVES = (
    *("layernorm-epsilon-small", "dropout-left-out", "bias-left-out", "relu-gradient"),
    *("torch-on-both-sides", "stale-log", "case-kept", "class-weights-mean"),
    "large-one-element-once",
)


# ---- the catalogue ------------------------------------------------------------------------------


def test_a_row_that_is_no_fault_is_refused():
    with pytest.raises(ValueError, match="half.toml, x: no fault has orgin"):
        catalogue._fault({"id": "x", "orgin": "a"}, "half.toml")


def test_catalogue_is_long_and_its_names_are_unique():
    assert len(FAULTS) >= 60
    assert len(BY_ID) == len(FAULTS)
    planted = [(f.step, f.model, f.file, f.old, f.new, f.after, f.other) for f in FAULTS]
    assert len(set(planted)) == len(planted)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.id for fault in FAULTS])
def test_fault_can_be_planted_and_says_what_it_wants(fault):
    assert fault.step in run.COST and fault.origin and fault.what and fault.area
    assert fault.file or fault.after is not None
    if fault.file:
        text = text_of(ROOT / fault.file)
        assert fault.planted(text) != text
        assert "/torch" not in fault.file and not fault.file.startswith("common/torch")


def test_patch_that_fits_nowhere_or_twice_is_refused():
    fault = Fault("x", "a fault", "fastformer", 1, "logits", file="f.py", old="a", new="b")
    for text in ("no such letter?", "aa"):
        with pytest.raises(ValueError, match=r"^x: f.py holds 'a' \d times, not once$"):
            fault.planted(text.replace("a", "") if text[0] == "n" else text)


def test_lines_of_a_port_that_are_written_otherwise_are_put_where_they_fit_once():
    assert patched("a\nb\nc\n", "@@\n b\n-c\n+d\n@@\n-a\n") == "b\nd\n"
    with pytest.raises(ValueError, match="there 2 times, not once"):
        patched("a\na\n", "@@\n-a\n+b\n")


# ---- planting them ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    worker = Worker(tmp_path_factory.mktemp("faults"))
    few_digits(worker.checkout)
    yield worker
    worker.close()


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_fault_is_caught_and_named(worker, name):
    found = worker.judge(BY_ID[name])
    assert found["control_is_green"], found
    assert found["caught"], found
    assert found["origin_right"], found


def test_change_that_is_no_fault_is_not_caught(worker):
    fault = BY_ID["layernorm-epsilon-small"]
    found = worker.judge(dataclasses.replace(fault, new=f"{fault.old}  # as it was"))
    assert found["exit_code"] == 0 and not found["caught"] and not found["origin_right"]


def done(status):
    """A finished check, as far as a verdict on it goes."""
    return SimpleNamespace(stderr="", returncode=status)


@pytest.mark.parametrize(
    "control_is_green, status, first, caught, right",
    [
        (True, 1, "main/fastformer_model.LayerNorm", True, True),
        (True, 1, "main/logits", True, False),
        (True, 1, None, True, False),
        (True, 2, None, False, False),
        (True, 0, None, False, False),
        (False, 1, "main/fastformer_model.LayerNorm", False, False),
    ],
)
def test_fault_counts_only_behind_a_green_run_and_by_its_own_row(
    worker, control_is_green, status, first, caught, right
):
    fault = BY_ID["layernorm-epsilon-small"]
    told = {"first_diverged": first, "verdict": "DIVERGED", "rows": []}
    found = worker.found(fault, control_is_green, done(status), told)
    assert (found["caught"], found["origin_right"]) == (caught, right)


@pytest.mark.parametrize(
    "changes, green",
    [
        ({}, True),
        ({"verdict": "INSIDE"}, True),
        ({"verdict": "DIVERGED"}, False),
        ({"verdict": "CONSTANT"}, False),  # shown by a run
        ({"inside": True}, False),
        ({"gap": 1e-9}, False),
        ({"gap": None}, False),
    ],
)
def test_no_fault_is_found_while_an_output_that_is_off_is_green(worker, changes, green):
    """It is asked of every fault of the catalogue, whatever is said of what lies before it."""
    row = {"key": "main/logits", "verdict": "ROUNDING", "inside": False, "gap": 0.15}
    row |= {"allowed": 1e-8, "origin": False} | changes
    fault = BY_ID["layernorm-epsilon-small"]
    told = {"first_diverged": fault.origin, "verdict": "DIVERGED", "rows": [row]}
    found = worker.found(fault, True, done(1), told)
    assert found["green_and_off"] == (["main/logits"] if green else [])
    assert found["caught"] is not green


# ---- what is told -------------------------------------------------------------------------------


def _found(**changes) -> dict:
    says = {"reprod_log": "passes", "padiff": "fails"}
    fault = {
        **{"id": "x", "what": "a fault", "model": "fastformer", "step": 1},
        **{"wanted": "logits", "refused": False, "exit_code": 1, "caught": True},
        **{"origin_right": True, "first": "main/logits"},
        **{"origins": ["main/logits"], "sentence": "", "earlier": {}},
        **{"peers": says, "control_peers": says},
    }
    control = {"exit_code": 0, "peers": says}
    found = {"faults": [fault | changes], "controls": [control], "hard": []}
    return found | {"seconds": 1.0, "cpu_seconds": 1.0}


def test_result_passes_only_if_all_is_caught_and_no_alarm_is_false():
    assert run.passed(_found())
    assert not run.passed(_found(caught=False))
    assert not run.passed(_found(origin_right=False))
    assert not run.passed(_found() | {"hard": [{"name": "p", "exit_code": 1}]})


def test_unknown_fault_is_one_sentence(capsys):
    assert run.main(["--only", "no-such-fault"]) == 2
    assert "--only no-such-fault: there is none" in capsys.readouterr().err


@pytest.mark.parametrize("turned", [False, True])
def test_what_the_rules_of_other_tools_say_of_two_logs(tmp_path, turned):
    """A mean that is off fails both; an error that the mean hides passes reprod_log's alone."""
    values = np.arange(12, dtype=np.float32).reshape(3, 4)

    ref, cand = tmp_path / "ref.npy", tmp_path / "cand.npy"
    write_log(ref, {"a": values.T if turned else values, "own": values})
    for off, limit, said in (
        (0.0, 1e-6, ("passes", "passes")),
        (1e-4, 1e-6, ("fails", "fails")),
        (1e-4, 1.5e-3, ("passes", "fails")),
    ):
        write_log(cand, {"a": values + np.float32(off)})
        assert peers.one_sided(ref, cand) == ["own"]
        assert tuple(peers.says(ref, cand, limit, ["own"]).values()) == said
        assert set(peers.says(ref, cand, limit).values()) == {"fails"}  # another key
    assert peers.says(ref, tmp_path / "none.npy", 1e-6) == peers.NO_LOGS


# ---- correct pairs that are hard to judge --------------------------------------------------------


def test_every_folder_of_correct_pairs_has_its_checks():
    folders = {f"{top}/{path.name}" for top in (HARD, USERS) for path in (ROOT / top).iterdir()}
    checked = {one.model for one in CORRECT}
    assert checked - set(built_in_models()) == folders
    assert len(CORRECT) == len(set(CORRECT)) >= 249
    # A fault counts only behind a green run of its check.
    right = {(one.model, one.step) for one in CORRECT if "train" not in one.options}
    planted = [*catalogue.table("users"), *catalogue.table("reported")]
    assert len(planted) >= 40 and {(f.model, f.step) for f in planted} <= right


@pytest.mark.slow
def test_a_wrong_pair_is_a_false_alarm(tmp_path, monkeypatch):
    """Two pairs in one check: the wrong one is told by name, the right one passes."""
    pairs = [Correct(f"{USERS}/{name}", 3) for name in ("many_labels", "attention_module")]
    for one in pairs:
        shutil.copytree(ROOT / one.model, tmp_path / one.model)
    complete(tmp_path)
    change(tmp_path / pairs[0].model / "paddle_model.py", "weight * y", "y")
    monkeypatch.setattr(correct, "PAIRS", tmp_path)
    found = run.judge([], pairs, 1, lambda text: None, sys.executable)
    wrong, right = found["hard"]
    assert (wrong["name"], wrong["exit_code"], wrong["worst"]["key"]) == (
        *("users/many_labels", 1, "loss"),
    )
    assert right["exit_code"] == 0 and right["rows"] > 0
    assert not run.passed(found) and run.passed(found | {"hard": [right]})
    json.dumps(found, allow_nan=False)
