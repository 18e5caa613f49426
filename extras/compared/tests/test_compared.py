"""`twincheck report OLD NEW`: what got worse is found, is red, and comes first; each planted."""

import json
import shutil

import numpy as np
import pytest
from checkout import ROOT, change
from logged import PAIR, write_logs

from twincheck import __main__ as door
from twincheck.common.check.command_line import check_main
from twincheck.common.system import extras
from twincheck.common.system.json_file import write_sealed
from twincheck.extras.compared import command, compare
from twincheck.extras.compared.read import Found, Name
from twincheck.step1_forward import step as step1
from twincheck.step3_loss import step as step3

GAP_OF_TEXT = {"key": "a", "verdict": "ROUNDING", "gap": "x"}
STEP1 = "step1_forward/small_cnn"
KEYS, RENAMED = "body.0 body.1 logits", "body.0 body.2 logits"
WRONG = ((1, np.float32), (1.001, np.float32), (1, np.float64), (1.001, np.float64))  # of the runs


def make(folder, wrong="", names=KEYS, check=step1, stem="forward_all", edits=(), **told):
    """A folder of results: logs, of which `wrong` are, judged; sidecars are edited before."""
    rng = np.random.default_rng(0)
    values = {key: rng.normal(size=(5, 40)) for key in names.split()}
    for key in wrong.split():
        values[key] = tuple(np.asarray(values[key] * by, kind) for by, kind in WRONG)
    logs = folder / f"step{check.STEP.number}_{check.STEP.title}" / "small_cnn"
    write_logs(logs, stem, values, **{"outputs": {"main": ["logits"]}} | told)
    for path in logs.glob("*.json"):
        for old, new in edits:
            path.write_text(path.read_text().replace(old, new))
    options = ["--model", PAIR, "--out", str(folder), "--compare-only", "--no-report"]
    check_main(check.STEP, options)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A good result and one with a wrong tensor, each a folder."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "old")
    make(tmp_path / "wrong", "body.1")
    return tmp_path


@pytest.fixture
def told(results, capsys):
    """Return the status, what was said, and the document of two results by name."""

    def compared(old, new):
        capsys.readouterr()
        status = command.main([old, new, "--json", "compared.json"])
        said = capsys.readouterr()
        return status, said.out + said.err, json.loads((results / "compared.json").read_text())

    return compared


@pytest.mark.parametrize(
    ("old", "wrong", "names", "last", "changes"),
    [
        ("old", "", KEYS, "Nothing changed · 3 as before", ""),
        ("old", "body.1", KEYS, "1 row got worse · 1 worse, 2 as before", "fails now"),
        ("wrong", "", KEYS, "1 row got better · 1 better, 2 as before", "agrees now"),
        ("wrong", "body.1", KEYS, "Nothing changed · 1 fail as before, 2", "fails as before"),
        ("wrong", "body.0", KEYS, "1 row got worse · 1 worse, 1 better", "fails now, agrees now"),
        ("old", "", RENAMED, "Nothing got worse · 1 gone, 1 new, 2 as before", "gone, new"),
    ],
)
def test_what_became_of_the_rows(results, told, monkeypatch, old, wrong, names, last, changes):
    make(results / "new", wrong, names)
    found, said, document = told(old, "new")
    assert found == document["exit_code"] == int("fails now" in changes)
    assert said.splitlines()[-1].startswith(last) and said.endswith(document["sentence"] + "\n")
    assert ", ".join(row["change"] for row in document["rows"]) == changes
    assert ("nothing differs around them" in said) == (document["surroundings"] == [])
    if found:
        row = document["rows"][0]
        assert (row["step"], row["model"], row["key"]) == (1, "small_cnn", wrong)
        assert row["before"]["gap"] < row["before"]["allowed"] < row["after"]["gap"]
        assert "starts here" in said
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        said = told(old, "new")[1]  # no green stands above what got worse
        assert "\x1b[32m" not in said[: said.rindex("\x1b[31mROUNDING → DIVERGED")]


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        ("CARRIED", "DIVERGED", "worse"),
        ("PRECISION", "FLIP", "agrees now"),
        ("DIVERGED", "CARRIED", "better"),
        ("IDENTICAL", "ROUNDING", "as before"),
        ("ROUNDING", "UNDECIDED", "worse"),  # its check let it pass
    ],
)
def test_what_became_of_a_row(was, now, what):
    rows = [{"a": {"verdict": verdict, "origin": False}} for verdict in (was, now)]
    results = [{Name(1, "", "m"): Found(one, {}, ["UNDECIDED"])} for one in rows]
    assert [one.change for one in compare.compare(*results, *"xy").changes] == [what]


@pytest.mark.parametrize(("wrong", "status"), [("", 0), ("loss", 1)])
def test_a_step_of_one_alone(results, told, wrong, status):
    make(results / "more")
    make(results / "more", wrong, "loss logits", step3, "loss_all")
    for paths, where in ((("more", "old"), "first"), (("old", "more"), "second")):
        found, said, document = told(*paths)
        assert f"step 3, small_cnn in the {where} alone" in said.splitlines()[-1]
        assert found == document["counts"]["new, fails"] == (status if where == "second" else 0)


def test_what_differs_around_them(results, told):
    edits = ('version": "1.0"', 'version": "1.1"'), ('seed": 0', 'seed": 7'), ("1" * 64, "b" * 64)
    layers = {"body.0": {"epsilon": 1e-6}, "body.1": {"epsilon": 1e-5}}
    make(results / "other", edits=edits, settings=layers)
    status, said, document = told("old", "other")
    found = {(d["what"], d["side"]): (d["before"], d["after"]) for d in document["surroundings"]}
    assert status == 0 and found == {
        ("torch", "torch"): ("1.0", "1.1"),
        ("paddle", "paddle"): ("1.0", "1.1"),
        ("seed", "both"): ("0", "7"),
        ("inputs_sha256", "both"): ("1" * 12, "b" * 12),
        ("epsilon of layers", "both"): ("–", "1e-05 × 1, 1e-06 × 1"),
    }
    assert "what differs around them" in said and "all steps" in said


def bundle(folder):
    """Write a folder's bundle beside it."""
    words = ["--from", str(folder), "--model", PAIR, "--out", f"{folder}.zip"]
    assert door.main(["bundle", *words]) == 0


def test_each_of_the_two_is_a_folder_a_pair_s_own_or_a_bundle(results, told):
    unfinished = results / "wrong" / ".work-1-x" / "small_cnn"
    shutil.copytree(results / "old" / STEP1, unfinished)  # is no result
    shutil.copytree(ROOT / "tests" / "pairs" / "small_cnn", results / "pair")
    shutil.copytree(results / "wrong", results / "pair" / "log")
    bundle(results / "wrong")
    status, _, expected = told("old", "wrong")
    for new in (f"wrong/{STEP1}", "pair", "wrong.zip"):
        found, _, document = told("old", new)
        assert found == status == 1 and document["counts"] == expected["counts"]
        assert document["results"] == expected["results"] and document["surroundings"] == []
        assert [row["change"] for row in document["rows"]] == ["fails now"]


# ---- bad input ----------------------------------------------------------------------------------


def resealed(folder, **values):
    """A result.json with other entries."""
    file = folder / STEP1 / "result.json"
    said = json.loads(file.read_text()) | values
    del said["seal"]
    write_sealed(file, json.dumps(said, indent=1))


def bundled(folder):
    """A bundle in the folder's place, with a byte changed."""
    bundle(folder)
    shutil.rmtree(folder)
    content = bytearray(folder.with_suffix(".zip").read_bytes())
    content[len(content) // 2] ^= 1
    folder.write_bytes(content)


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (shutil.rmtree, "there is no such file or folder"),
        (lambda f: (f / STEP1 / "result.json").unlink(), "no result of a check is in this folder"),
        (lambda f: (shutil.rmtree(f), f.write_text("x")), "no bundle, or a damaged one"),
        (bundled, "something does not hold"),
        (
            lambda f: change(f / STEP1 / "result.json", "DIVERGED", "ROUNDING"),
            "it is torn, or was edited after it was written",
        ),
        (
            lambda f: change(f / STEP1 / "forward_all_paddle.json", '"1.0"', '"1.1"'),
            "is not the file that result.json tells of",
        ),
        (lambda f: shutil.copytree(f / STEP1, f / "again"), "are two results of step 1"),
        (lambda f: resealed(f, model="another"), "these have no step of a pair in common"),
        (lambda f: resealed(f, step="1"), "its result is not as a check writes it"),
        (lambda f: resealed(f, rows=[{"key": "a"}]), "its result is not as a check writes it"),
        (lambda f: resealed(f, rows=[GAP_OF_TEXT]), "its result is not as a check writes it"),
    ],
)
def test_bad_input_is_a_sentence(results, told, plant, said):
    plant(results / "wrong")
    status, printed, document = told("old", "wrong")
    assert status == 2 and printed.count("\n") == 1 and said in printed, printed
    assert document["exit_code"] == 2 and said in document["error"]


def test_two_paths_go_here_and_all_else_as_before(results, monkeypatch):
    gone = []
    core, here = "twincheck.common.judge_again", "twincheck.extras.compared.command"
    for place in (here, core):
        stand_in = extras.of_pairs()(lambda words, place=place: gone.append(place) or 0)
        monkeypatch.setattr(f"{place}.main", stand_in)
    monkeypatch.setattr(door, "begin", lambda *packages: None)
    for words in (["old", "wrong"], ["old"], ["reformer", "fastformer"]):
        door.main(["report", *words])
    assert gone == [here, core, core]
