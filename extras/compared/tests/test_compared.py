"""`twincheck report OLD NEW`: what got worse is found, is red, and comes first; each planted."""

import json
import re
import shutil

import numpy as np
import pytest
from checkout import ROOT
from logged import PAIR
from rich.color import ColorSystem

from twincheck import __main__ as door
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.report import terminal
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.json_file import write_sealed
from twincheck.common.verdict.row import Row
from twincheck.extras.compared import command, compare, surroundings
from twincheck.extras.compared import page as pages
from twincheck.extras.compared.read import Found, Told, _row, read
from twincheck.extras.compared.tests.made import make, paddle_off, tensors, told
from twincheck.step3_loss import step as step3

STEP1 = "step1_forward/small_cnn"


@pytest.fixture
def results(tmp_path):
    """Two equal results and one with a wrong tensor, each a folder."""
    make(tmp_path / "old", tensors())
    make(tmp_path / "same", tensors())
    make(tmp_path / "wrong", tensors(**{"body.1": 1e-3}))
    return tmp_path


def test_two_equal_results(results, capsys):
    status, said, document = told(capsys, results / "old", results / "same")
    assert status == 0 and document["exit_code"] == 0 and document["rows"] == []
    last = said.splitlines()[-1]
    assert last.startswith("Nothing changed · 4 rows agree as before · ")
    assert "nothing differs around them" in said and "got worse" not in said
    page = (results / "same" / pages.FILE).read_text()
    assert "Nothing changed" in page and 'class="bad"' not in page


def test_a_row_that_agrees_no_more(results, capsys):
    status, said, document = told(capsys, results / "old", results / "wrong")
    assert status == 1 and document["exit_code"] == 1
    assert said.splitlines()[-1].startswith("1 row got worse · 1 row agrees no more, 3 agree as ")
    (row,) = document["rows"]
    assert (row["key"], row["change"], row["step"]) == ("body.1", "fails now", 1)
    assert row["before"]["verdict"] == "ROUNDING" and row["after"]["verdict"] == "DIVERGED"
    assert row["before"]["gap"] < row["before"]["allowed"] < row["after"]["gap"]
    line = next(line for line in said.splitlines() if "ROUNDING → DIVERGED" in line)
    assert "body.1" in line and len(re.findall(r"\de-\d\d / \d", line)) == 2
    assert [one["change"] for one in document["findings"]] == ["now"]


def test_a_row_that_agrees_now(results, capsys):
    status, said, document = told(capsys, results / "wrong", results / "old")
    assert status == 0
    assert "1 row failed before and agrees now, 3 agree as before" in said.splitlines()[-1]
    assert document["counts"]["agrees now"] == 1 and document["findings"][0]["change"] == "no more"
    page = (results / "old" / pages.FILE).read_text()
    assert "Failed before and agree now" in page and "Found no more" in page


def test_no_green_stands_above_what_got_worse(tmp_path, monkeypatch, capsys):
    """Of a mend that broke something else: one row better, one worse."""
    make(tmp_path / "old", tensors(**{"body.0": 1e-3}))
    make(tmp_path / "new", tensors(**{"body.2": 1e-3}))
    console = terminal._console
    monkeypatch.setattr(terminal, "_console", lambda **how: coloured(console(**how)))
    status, said, _ = told(capsys, tmp_path / "old", tmp_path / "new")
    assert status == 1 and "\x1b[32m" in said and "\x1b[31m" in said
    assert said.rindex("\x1b[31mROUNDING → DIVERGED") < said.index("\x1b[32m")
    assert "1 row agrees no more, 1 failed before and agrees now" in said
    page = (tmp_path / "new" / pages.FILE).read_text()
    assert page.index("Agreed before and fail now") < page.index('class="verdict good"')
    head = page[page.index("<h1>") : page.index("</header>")]
    assert 'class="bad"' in head and "good" not in head


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
    ],
)
def test_what_became_of_a_row(was, now, what):
    rows = [verdict and Row("a", verdict) for verdict in (was, now)]
    off = [row and compare.fails(row, ()) for row in rows]
    assert compare._what(*rows, *off) == what


def test_a_verdict_that_one_check_let_pass():
    row = Row("a", "PRECISION")
    assert compare.fails(row, ()) and not compare.fails(row, ("PRECISION",))
    assert compare._what(row, row, False, True) == "fails now"


def test_a_row_that_fails_as_before_by_more(tmp_path, capsys):
    make(tmp_path / "old", tensors(**{"body.1": 1e-4}))
    make(tmp_path / "new", tensors(**{"body.1": 1e-2}))
    status, said, document = told(capsys, tmp_path / "old", tmp_path / "new")
    assert status == 0 and document["counts"]["fails as before"] == 1
    last = said.splitlines()[-1]
    assert last.startswith(
        "No verdict got worse, and 1 row fails as before · 1 row fails as before"
    )
    assert "1 row fails as before (1 by more), 3 agree as before" in last
    page = (tmp_path / "new" / pages.FILE).read_text()
    assert "off by 1e+02 times as much" in page
    head = page[page.index("<h1>") : page.index("</h1>")]
    assert 'class="good"' not in head


def test_a_row_of_one_alone(tmp_path, capsys):
    old, new = tensors(), tensors()
    old["body.gone"] = new["body.new"] = np.ones((5, 3)) * np.pi
    make(tmp_path / "old", old)
    make(tmp_path / "new", new)
    status, said, document = told(capsys, tmp_path / "old", tmp_path / "new")
    assert status == 0 and "1 row is gone, 1 is new, 4 agree as before" in said.splitlines()[-1]
    changes = {row["key"]: row["change"] for row in document["rows"]}
    assert changes == {"body.gone": "gone", "body.new": "new"}
    page = (tmp_path / "new" / pages.FILE).read_text()
    assert '<span class="mind">' in page[page.index("<h1>") : page.index("</h1>")]


@pytest.mark.parametrize(("part", "status"), [(0.0, 0), (1e-3, 1)])
def test_a_step_of_one_alone(results, capsys, part, status):
    values = {"loss": np.float64(1.5), "logits": tensors()["logits"]}
    values["loss"] = paddle_off(np.asarray([1.5]), part)
    make(results / "same", values, step3, "loss_all")
    found, said, document = told(capsys, results / "old", results / "same")
    assert "; step 3 is in the second alone" in said.splitlines()[-1]
    assert found == status == document["counts"]["new, fails"]
    found, said, _ = told(capsys, results / "same", results / "old")
    assert found == 0 and "; step 3 is in the first alone" in said.splitlines()[-1]


def test_noise_that_differs(tmp_path, capsys):
    values = tensors()
    make(tmp_path / "old", values | {"body.1": paddle_off(values["body.1"], 0.0)})
    make(tmp_path / "new", values | {"body.1": paddle_off(values["body.1"], 0.0, noise=9.0)})
    status, said, document = told(capsys, tmp_path / "old", tmp_path / "new")
    assert status == 0 and "; 1 row has other noise" in said.splitlines()[-1]
    (row,) = document["rows"]
    assert row["key"] == "body.1" and row["change"] == "as before"
    assert 4 < row["noise"]["factor"] < 9 and "other noise" in said
    assert "Other noise" in (tmp_path / "new" / pages.FILE).read_text()


@pytest.mark.parametrize(("after", "found"), [(3.9, None), (4.1, "mean float32 difference")])
def test_a_difference_is_one_draw(after, found):
    noise = compare._noise(*(Row("a", "ROUNDING", mean_abs=value) for value in (1.0, after)))
    assert (noise and noise.what) == found


@pytest.mark.parametrize(
    ("was", "now", "is_one"),
    [
        (("rms", None), ("rms", None), True),
        (("rms", None), ("", None), True),
        (("rms", 1), ("rms", 2), False),
        (("claim", None), ("claim", None), False),
    ],
)
def test_noise_of_other_samples_is_not_compared(was, now, is_one):
    rows = [
        Row("a", "CARRIED", measure=measure, sample=sample, allowed=allowed)
        for (measure, sample), allowed in ((was, 1.0), (now, 3.0))
    ]
    assert (compare._noise(*rows) is not None) == is_one


def test_outputs_are_compared_by_their_noise(tmp_path, capsys):
    """result.json has them whole."""
    values = tensors()
    make(tmp_path / "old", values | {"logits": paddle_off(values["logits"], 0.0)})
    make(tmp_path / "new", values | {"logits": paddle_off(values["logits"], 0.0, noise=3.0)})
    _, _, document = told(capsys, tmp_path / "old", tmp_path / "new")
    (row,) = document["rows"]
    assert row["noise"]["what"] == "Paddle's noise" and 2 < row["noise"]["factor"] < 4


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        ((None, 1e-8), (None, 1e-8), None),
        ((None, 1e-8), (None, 3e-8), "Paddle's noise"),
        ((1e-8, 1e-8), (1.9e-8, 0.6e-8), None),
        ((1e-8, 1e-8), (3e-8, 0.1e-8), "Paddle's noise"),
        ((1e-8, 1e-8), (3e-8, 1e-8), "torch's noise"),
    ],
)
def test_which_noise_differs_most(was, now, found):
    rows = [Row("a", "ROUNDING", noise_ref=t, noise_cand=p, mean_abs=1.0) for t, p in (was, now)]
    noise = compare._noise(*rows)
    assert (noise and noise.what) == found


def test_what_differs_around_them(results, capsys):
    def change(text):
        text = text.replace('"framework_version": "1.0"', '"framework_version": "1.1"')
        return text.replace('"seed": 0', '"seed": 7')

    make(results / "other", tensors(), change=change)
    status, said, document = told(capsys, results / "old", results / "other")
    found = {(d["what"], d["side"]): (d["before"], d["after"]) for d in document["surroundings"]}
    assert found[("torch", "torch")] == found[("paddle", "paddle")] == ("1.0", "1.1")
    assert found[("seed", "both")] == ("0", "7") and status == 0
    assert "what differs around them" in said and "all steps" in said


def test_layers_that_are_built_otherwise(tmp_path, capsys):
    for name, epsilon in (("old", 1e-5), ("new", 1e-6)):
        layers = {"body.0": {"epsilon": epsilon}, "body.1": {"epsilon": epsilon}}
        make(tmp_path / name, tensors(), settings=layers)
    _, _, document = told(capsys, tmp_path / "old", tmp_path / "new")
    (one,) = (d for d in document["surroundings"] if "epsilon" in d["what"])
    assert one["what"] == "body.0 and 1 further layer: epsilon"
    assert (one["before"], one["after"]) == ("1e-05", "1e-06")


def test_sources_that_differ():
    def result(model, version):
        sources = {"case.py": "a" * 64, "paddle_model.py": model * 64}
        sides = {
            side: [Sidecar(framework=side, framework_version=version, sources=sources)]
            for side in ("torch", "paddle")
        }
        return Told(pages.Path("x"), {(1, "", "m"): Found(1, "", "m", [], sides, None, (), {})})

    old, new = result("b", "1"), result("c", "1")
    (one,) = surroundings.differences(old, new)
    assert (one.what, one.side) == ("paddle_model.py", "both") and one.after == "c" * 12
    assert surroundings.alike(old, new) == ["torch 1", "paddle 1", "case.py"]
    assert surroundings.differences(old, old) == []


@pytest.mark.parametrize(
    ("now", "found"), [({"lr": 0.2}, ["training: lr"]), ({"lr": 0.1}, []), ({}, [])]
)
def test_settings_of_a_training(now, found):
    sides = {side: [Sidecar()] for side in ("torch", "paddle")}
    told = [
        Told(pages.Path("x"), {(5, "", "m"): Found(5, "", "m", [], sides, None, (), {}, training)})
        for training in ({"lr": 0.1}, now)
    ]
    assert [one.what for one in surroundings.differences(*told)] == found


def test_hashes_of_each_step_are_one_line(results):
    for name, letter in (("old", "b"), ("same", "c")):
        make(results / name, tensors(), change=lambda t, x=letter: t.replace("1" * 64, x * 64))
        values = {"loss": np.float64(1.5), "logits": tensors()["logits"]}
        make(results / name, values, step3, "loss_all")
    (one,) = surroundings.differences(read(results / "old"), read(results / "same"))
    assert one.what == "inputs, SHA-256" and one.before == "b" * 12


# ---- bundles ------------------------------------------------------------------------------------


@pytest.fixture
def bundles(results, monkeypatch):
    """Bundles of the first result and of the wrong one."""
    monkeypatch.chdir(results)
    for name in ("old", "wrong"):
        assert door.main(["bundle", "--from", name, "--model", PAIR, "--out", f"{name}.zip"]) == 0
    return results


def test_bundles_say_what_their_folders_say(bundles, capsys):
    assert told(capsys, bundles / "old.zip", bundles / "same")[0] == 0
    status, said, document = told(capsys, bundles / "old.zip", bundles / "wrong.zip")
    assert status == 1 and said.splitlines()[-1].startswith("1 row got worse")
    assert (bundles / "wrong-compared.html").is_file()
    _, _, folders = told(capsys, bundles / "old", bundles / "wrong")
    for one in (document, folders):
        del one["before"]["path"], one["after"]["path"], one["before"]["root"], one["after"]["root"]
    rows = [(row["key"], row["change"]) for row in document["rows"]]
    assert rows == [(row["key"], row["change"]) for row in folders["rows"]]
    assert document["counts"] == folders["counts"] and document["results"] == folders["results"]
    assert document["findings"] == folders["findings"]


@pytest.mark.parametrize(
    "wrong",
    [{"reasons": [{"kind": "MEASURED", "x": 1}]}, {"excuses": ["LATER"]}, {"excuses": [[]]}],
)
def test_a_row_of_a_later_version_is_refused_in_a_sentence(wrong):
    told = Row("main/out", "ROUNDING").as_json() | wrong
    with pytest.raises(UserError, match="p: refused: 'main/out' is no row"):
        _row(told, "p")


def test_a_bundle_that_does_not_verify(bundles, capsys):
    path = bundles / "wrong.zip"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    verified = door.main(["verify", str(path)])
    said = capsys.readouterr()
    status, refused, document = told(capsys, bundles / "old", path)
    assert status == 2 and verified in (1, 2) and set(document) == {"schema", "exit_code", "error"}
    words = said.err.removeprefix("error: ").strip() or said.out.splitlines()[1].strip()
    assert words in refused and not (bundles / "wrong-compared.html").exists()


# ---- bad input ----------------------------------------------------------------------------------


def edited(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def other_pair(folder):
    file = folder / STEP1 / "result.json"
    said = json.loads(file.read_text())
    del said["seal"]
    said["model"] = "another"
    write_sealed(file, json.dumps(said, indent=1))


def row_of(folder, **values):
    file = folder / STEP1 / "result.json"
    said = json.loads(file.read_text())
    del said["seal"]
    said["rows"][0] |= values
    write_sealed(file, json.dumps(said, indent=1))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (shutil.rmtree, "there is no such file or folder"),
        (lambda f: (shutil.rmtree(f), f.mkdir()), "no result of a check is in this folder"),
        (lambda f: (shutil.rmtree(f), f.write_text("x")), "no bundle, or a damaged one"),
        (lambda f: (f / STEP1 / "result.json").unlink(), "judge them first, with --compare-only"),
        (
            lambda f: edited(f / STEP1 / "result.json", "DIVERGED", "ROUNDING"),
            "it is torn, or was edited after it was written",
        ),
        (
            lambda f: edited(f / STEP1 / "forward_all_paddle.json", '"1.0"', '"1.1"'),
            "is not the file that result.json tells of",
        ),
        (lambda f: shutil.copytree(f / STEP1, f / "again"), "are two results of step 1"),
        (other_pair, "these have no pair in common"),
        (lambda f: row_of(f, verdict="FINE"), "is no row"),
    ],
)
def test_bad_input_is_a_sentence(results, capsys, plant, said):
    plant(results / "wrong")
    status, printed, document = told(capsys, results / "old", results / "wrong")
    assert status == 2 and printed.count("\n") == 1 and said in printed, printed
    assert document["exit_code"] == 2 and said in document["error"]


def test_no_step_in_common(tmp_path, capsys):
    make(tmp_path / "old", tensors())
    make(tmp_path / "new", {"loss": np.float64(1.5)}, step3, "loss_all")
    status, said, _ = told(capsys, tmp_path / "old", tmp_path / "new")
    assert status == 2 and "these have no step of a pair in common" in said


def test_three_results(results, capsys):
    assert command.main([str(results / name) for name in ("old", "same", "wrong")]) == 2
    assert "two results are compared, OLD and NEW, and these are 3" in capsys.readouterr().err


def test_what_is_being_written_is_no_result(results, capsys):
    shutil.copytree(results / "old" / STEP1, results / "old" / ".work-1-x" / "small_cnn")
    assert told(capsys, results / "old", results / "same")[0] == 0


# ---- the door, and the page ---------------------------------------------------------------------


def test_two_paths_go_here_and_all_else_as_before(results, monkeypatch):
    gone = []
    core = "twincheck.common.judge_again"
    for place in ("twincheck.extras.compared.command", core):
        stand_in = of_pairs()(lambda words, place=place: gone.append((place, words)) or 0)
        monkeypatch.setattr(f"{place}.main", stand_in)
    monkeypatch.setattr(door, "begin", lambda *packages: None)
    old, new = str(results / "old"), str(results / "wrong")
    door.main(["report", old, new, "--no-report"])
    door.main(["report", old])
    door.main(["report", "reformer", "fastformer"])
    assert gone[0] == ("twincheck.extras.compared.command", [old, new, "--no-report"])
    assert [name for name, _ in gone[1:]] == [core, core]


def test_a_pair_s_own_folder(results, capsys, monkeypatch):
    pair = results / "pair" / "small_cnn"
    shutil.copytree(ROOT / "tests" / "pairs" / "small_cnn", pair)
    shutil.copytree(results / "wrong", pair / "log")
    status, _, document = told(capsys, results / "old", pair)
    assert status == 1 and document["after"]["path"] == str(pair)


def test_a_page_that_cannot_be_written_loses_nothing(results, capsys):
    status, said, _ = told(
        capsys, results / "old", results / "wrong", "--out", str(results / "old" / STEP1)
    )
    assert status == 1 and "no page: " in said and "1 row got worse" in said
