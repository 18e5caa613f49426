"""Users' pairs: the registry, what a run comes to, and a wrong pair that is told."""

import pytest
from builders import copied

from faults.catalogue import table
from faults.users import run
from faults.users.registry import KINDS, PAIRS, UserPair


def test_registry_and_folders_say_the_same():
    assert {pair.name for pair in PAIRS} == {path.name for path in run.FOLDER.iterdir()}
    assert {pair.kind for pair in PAIRS} == set(KINDS)
    runs = run.runs_of(PAIRS)
    assert len(PAIRS) >= 50 and len(runs) >= 150 and len(set(runs)) == len(runs)


def test_faults_are_in_pairs_that_pass_the_same_check():
    """A fault counts only behind a green run of its check."""
    runs = {(one.pair.name, one.step) for one in run.runs_of(PAIRS) if not one.train}
    faults = table("users")
    assert len(faults) >= 40
    for fault in faults:
        assert (fault.name, fault.step) in runs, fault.id


def row(model, key, verdict, note=""):
    numbers = {"gap": 1.0, "allowed": 0.5, "guide_passed": False, "note": note}
    return {"model": model, "key": key, "verdict": verdict} | numbers


@pytest.mark.parametrize(
    ("rows", "options", "errors", "verdict", "status"),
    [
        (["ROUNDING", "DIVERGED"], (), {}, "DIVERGED", 1),
        (["ROUNDING", "IDENTICAL"], (), {}, "ROUNDING", 0),
        (["PRECISION"], ("--allow", "precision"), {}, "PRECISION", 0),
        (["PRECISION"], (), {}, "PRECISION", 1),
        ([], (), {"a": "a sentence"}, "INVALID", 2),
        ([], (), {}, "INVALID", 2),
    ],
)
def test_what_a_run_comes_to(rows, options, errors, verdict, status):
    one = run.Run(UserPair("a", "odd", options=options), 1)
    made = [row("a", f"key{i}", verdict, "why") for i, verdict in enumerate(rows)]
    found = run._summary(one, made, errors, 1.0)
    assert (found["verdict"], found["exit_code"]) == (verdict, status)
    if status == 1:
        assert "DIVERGED key1 (1.00e+00 of 5.00e-01) why" in run.told(found) or len(rows) == 1
    if errors:
        assert run.told(found).endswith("a sentence")


@pytest.mark.slow
def test_a_wrong_pair_is_a_false_alarm(tmp_path, monkeypatch):
    """Two pairs in one check: the wrong one is told by name, the right one passes."""
    names = ("many_labels", "attention_module")
    for name, changes in zip(names, ([("weight * y", "y")], []), strict=True):
        copied(run.FOLDER / name, tmp_path, *changes)
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    runs = [one for one in run.runs_of(PAIRS) if one.pair.name in names and one.step == 3]
    found = {one["name"]: one for one in run.run(1, lambda text: None, runs)}
    wrong, right = found["users/many_labels"], found["users/attention_module"]
    assert wrong["exit_code"] == 1 and wrong["worst"]["key"] == "loss"
    assert right["exit_code"] == 0 and right["rows"] > 0
