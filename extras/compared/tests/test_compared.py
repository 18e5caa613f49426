"""`twincheck report OLD NEW`: what got worse is found, is red, and comes first; each planted."""

import json
import shutil

import numpy as np
import pytest
from checkout import ROOT, change
from logged import PAIR, write_logs
from rich.color import ColorSystem

from twincheck import __main__ as door
from twincheck.common.check.command_line import check_main
from twincheck.common.report import terminal
from twincheck.common.system import extras
from twincheck.common.system.json_file import write_sealed
from twincheck.extras.compared import command, compare
from twincheck.extras.compared.read import Found
from twincheck.step1_forward import step as step1
from twincheck.step3_loss import step as step3

STEP1 = "step1_forward/small_cnn"
LOSS = {"loss": np.float64(1.5), "logits": np.arange(12.0).reshape(3, 4)}


def tensors(**off):
    """Key -> values; those of `off` are wrong on the Paddle side by such a part."""
    rng = np.random.default_rng(0)
    found = {}
    for key in ("body.0", "body.1", "body.2", "logits"):
        values = rng.normal(size=(5, 40))
        found[key] = is_off(values, off[key]) if key in off else values
    return found


def is_off(values, part):
    """The four runs of a tensor whose Paddle side is off by a part."""
    exact, kinds = (1, 1 + part) * 2, (np.float32,) * 2 + (np.float64,) * 2
    return tuple(np.asarray(values * by, kind) for by, kind in zip(exact, kinds, strict=True))


def make(folder, values, check=step1, stem="forward_all", change=None, **told):
    """A folder of results: logs, judged; `change` edits their sidecars before."""
    logs = folder / f"step{check.STEP.number}_{check.STEP.title}" / "small_cnn"
    write_logs(logs, stem, values, **{"outputs": {"main": ["logits"]}} | told)
    for path in logs.glob("*.json") if change else ():
        path.write_text(change(path.read_text()))
    options = ["--model", PAIR, "--out", str(folder), "--compare-only", "--no-report"]
    check_main(check.STEP, options)
    return folder


@pytest.fixture
def told(tmp_path, capsys):
    """Return the status, what was said, and the document of two results by name."""

    def compared(old, new):
        file = tmp_path / "compared.json"
        capsys.readouterr()
        status = command.main([str(tmp_path / old), str(tmp_path / new), "--json", str(file)])
        said = capsys.readouterr()
        return status, said.out + said.err, json.loads(file.read_text())

    return compared


@pytest.fixture
def results(tmp_path):
    """Two equal results and one with a wrong tensor, each a folder."""
    make(tmp_path / "old", tensors())
    make(tmp_path / "same", tensors())
    make(tmp_path / "wrong", tensors(**{"body.1": 1e-3}))
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "status", "last", "changes"),
    [
        ("old", "same", 0, "Nothing changed · 4 as before", {}),
        ("old", "wrong", 1, "1 row got worse · 1 worse, 3 as before", {"body.1": "fails now"}),
        ("wrong", "old", 0, "1 row got better · 1 better, 3 as before", {"body.1": "agrees now"}),
        (
            "wrong",
            "more",
            1,
            "1 row got worse · 1 worse, 1 fail as before, 2 as before",
            {"body.0": "fails now", "body.1": "fails as before"},
        ),
        (
            "old",
            "renamed",
            0,
            "Nothing got worse · 1 gone, 1 new, 3 as before",
            {"body.2": "gone", "body.3": "new"},
        ),
    ],
)
def test_what_became_of_the_rows(results, told, old, new, status, last, changes):
    make(results / "more", tensors(**{"body.1": 1e-3, "body.0": 1e-3}))
    renamed = tensors()
    renamed["body.3"] = renamed.pop("body.2")
    make(results / "renamed", renamed)
    found, said, document = told(old, new)
    assert found == document["exit_code"] == status
    assert said.splitlines()[-1] == last and last.endswith(document["sentence"])
    assert {row["key"]: row["change"] for row in document["rows"]} == changes
    for row in document["rows"]:
        if row["change"] == "fails now":
            assert (row["step"], row["model"]) == (1, "small_cnn")
            assert row["before"]["gap"] < row["before"]["allowed"] < row["after"]["gap"]
            assert "ROUNDING → DIVERGED" in said and "starts here" in said
    assert ("nothing differs around them" in said) == (document["surroundings"] == [])


def test_no_green_stands_above_what_got_worse(tmp_path, monkeypatch, told):
    """Of a mend that broke something else: one row better, one worse."""
    make(tmp_path / "old", tensors(**{"body.0": 1e-3}))
    make(tmp_path / "new", tensors(**{"body.2": 1e-3}))
    console = terminal._console
    monkeypatch.setattr(terminal, "_console", lambda **how: coloured(console(**how)))
    status, said, _ = told("old", "new")
    assert status == 1 and "\x1b[32m" in said and "\x1b[31m" in said
    assert said.rindex("\x1b[31mROUNDING → DIVERGED") < said.index("\x1b[32m")


def coloured(console):
    """A console that writes colours into what is no terminal too."""
    console.no_color, console._color_system = False, ColorSystem.STANDARD
    return console


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        ("ROUNDING", "DIVERGED", "fails now"),
        (None, "INVALID", "new, fails"),
        ("CARRIED", "DIVERGED", "worse"),
        ("DIVERGED", "DIVERGED", "fails as before"),
        ("PRECISION", "FLIP", "agrees now"),
        ("DIVERGED", "CARRIED", "better"),
        ("ROUNDING", None, "gone"),
        (None, "CONSTANT", "new"),
        ("IDENTICAL", "ROUNDING", "as before"),
        ("ROUNDING", "UNDECIDED", "worse"),  # its check let it pass
    ],
)
def test_what_became_of_a_row(was, now, what):
    results = []
    for verdict in (was, now):
        rows = {"a": {"verdict": verdict, "origin": False}} if verdict else {}
        results.append({(1, "", "m"): Found(rows, None, ("UNDECIDED",), {})})
    assert [change.what for change in compare.compare(*results, *"xy").changes] == [what]


@pytest.mark.parametrize(("part", "status"), [(0.0, 0), (1e-3, 1)])
def test_a_step_of_one_alone(results, told, part, status):
    make(results / "same", LOSS | {"loss": is_off(np.ones(1), part)}, step3, "loss_all")
    found, said, document = told("old", "same")
    assert "step 3, small_cnn in the second alone" in said.splitlines()[-1]
    assert found == status == document["counts"]["new, fails"]
    found, said, _ = told("same", "old")
    assert found == 0 and "step 3, small_cnn in the first alone" in said.splitlines()[-1]


def test_what_differs_around_them(results, told):
    def change(text):
        for old, new in (('version": "1.0"', 'version": "1.1"'), ('seed": 0', 'seed": 7')):
            text = text.replace(old, new)
        return text.replace("1" * 64, "b" * 64)

    layers = {"body.0": {"epsilon": 1e-6}, "body.1": {"epsilon": 1e-5}}
    make(results / "other", tensors(), change=change, settings=layers)
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


# ---- bundles ------------------------------------------------------------------------------------


@pytest.fixture
def bundles(results, monkeypatch):
    """Bundles of the first result and of the wrong one."""
    monkeypatch.chdir(results)
    for name in ("old", "wrong"):
        assert door.main(["bundle", "--from", name, "--model", PAIR, "--out", f"{name}.zip"]) == 0
    return results


def test_bundles_say_what_their_folders_say(bundles, told):
    assert told("old.zip", "same")[2]["surroundings"] == []
    (status, said, document), (_, _, folders) = told("old.zip", "wrong.zip"), told("old", "wrong")
    assert status == 1 and said.splitlines()[-1].startswith("1 row got worse")
    rows = [[(row["key"], row["change"]) for row in one["rows"]] for one in (document, folders)]
    assert rows[0] == rows[1]
    assert document["counts"] == folders["counts"] and document["results"] == folders["results"]


def test_a_bundle_that_does_not_verify(bundles, told, capsys):
    path = bundles / "wrong.zip"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert door.main(["verify", str(path)]) in (1, 2)
    said = capsys.readouterr()
    status, refused, document = told("old", "wrong.zip")
    assert status == 2 and set(document) == {"schema", "exit_code", "error"}
    assert (said.err.removeprefix("error: ").strip() or said.out.splitlines()[1].strip()) in refused


# ---- bad input ----------------------------------------------------------------------------------


def resealed(folder, **values):
    """A result.json with other entries; `verdict` is that of its first row."""
    file = folder / STEP1 / "result.json"
    said = json.loads(file.read_text())
    del said["seal"]
    (said["rows"][0] if "verdict" in values else said).update(values)
    write_sealed(file, json.dumps(said, indent=1))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (shutil.rmtree, "there is no such file or folder"),
        (lambda f: (shutil.rmtree(f), f.mkdir()), "no result of a check is in this folder"),
        (lambda f: (shutil.rmtree(f), f.write_text("x")), "no bundle, or a damaged one"),
        (lambda f: (f / STEP1 / "result.json").unlink(), "judge them first, with --compare-only"),
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
        (lambda f: resealed(f, step="1"), "its step is not as a check writes it"),
        (lambda f: resealed(f, judged=["../x"]), "its judged is not as a check writes it"),
        (lambda f: resealed(f, verdict="FINE"), "is no row"),
    ],
)
def test_bad_input_is_a_sentence(results, told, plant, said):
    plant(results / "wrong")
    status, printed, document = told("old", "wrong")
    assert status == 2 and printed.count("\n") == 1 and said in printed, printed
    assert document["exit_code"] == 2 and said in document["error"]


def test_what_is_being_written_is_no_result(results, told):
    shutil.copytree(results / "old" / STEP1, results / "old" / ".work-1-x" / "small_cnn")
    assert told("old", "same")[0] == 0


def test_two_paths_go_here_and_all_else_as_before(results, monkeypatch):
    gone = []
    core, here = "twincheck.common.judge_again", "twincheck.extras.compared.command"
    for place in (here, core):
        stand_in = extras.of_pairs()(lambda words, place=place: gone.append((place, words)) or 0)
        monkeypatch.setattr(f"{place}.main", stand_in)
    monkeypatch.setattr(door, "begin", lambda *packages: None)
    old, new = str(results / "old"), str(results / "wrong")
    door.main(["report", old, new])
    door.main(["report", old])
    door.main(["report", "reformer", "fastformer"])
    assert gone[0] == (here, [old, new]) and [name for name, _ in gone[1:]] == [core, core]


def test_a_pair_s_own_folder(results, told):
    shutil.copytree(ROOT / "tests" / "pairs" / "small_cnn", results / "pair")
    shutil.copytree(results / "wrong", results / "pair" / "log")
    assert told("old", "pair")[0] == 1
