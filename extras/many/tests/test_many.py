"""`twincheck check A B C`: a line a pair, one on all, the worst exit status."""

import os
import shutil

import pytest
from checkout import ROOT

from twincheck import __main__ as door
from twincheck.extras.many import command

PAIR = ROOT / "tests" / "pairs" / "small_cnn"
# Stands for a check: what it says and how it ends is in the pair's folder.
STAND_IN = """
import os, sys
from pathlib import Path
print("first", sys.argv[1:], os.environ["OMP_NUM_THREADS"])
told = Path(sys.argv[sys.argv.index("--model") + 1], "told").read_text()
print(told[1:])
sys.exit(int(told[0]))
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Pairs and a check that stands for the real one, in the working directory."""
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(command, "CHECK", ("stand_in",))
    monkeypatch.chdir(tmp_path)

    def made(**told):
        for name, text in told.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "told").write_text(text)
        return list(told)

    return made


def test_a_folder_here_comes_before_the_built_in_model_of_its_name(folders, tmp_path, capsys):
    told = folders(reformer="0fine", b="0fine too")
    (tmp_path / "reformer" / "case.py").touch()
    assert command.main([*told, "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("reformer: fine (")


@pytest.mark.parametrize(
    ("told", "status", "last"),
    [
        ({"a": "0ALIGNED 5/5", "b": "0too"}, 0, "2 of 2 pairs ALIGNED"),
        ({"a": "0x", "b": "1y"}, 1, "1 of 2 pairs ALIGNED · 1 not aligned: {}/b/log/check.txt"),
        (
            {"a": "1x", "b": "2error: why\nbehind it", "c": "2错误：为何\nbehind it"},
            2,
            "0 of 3 pairs ALIGNED · 1 not aligned: {0}/a/log/check.txt · "
            "2 not compared: {0}/b/log/check.txt, {0}/c/log/check.txt",
        ),
    ],
)
def test_a_line_a_pair_and_one_on_all(folders, tmp_path, capsys, told, status, last):
    """An error is the line on a pair in either language, else what its check said last."""
    assert command.main([*folders(**told), "--jobs", "1"]) == status
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(told) + 1
    for line, (name, text) in zip(lines, told.items(), strict=False):
        words = "not compared: " if text[0] == "2" else ""
        assert line.startswith(f"{name}: {words}{text[1:].splitlines()[0]} (")
        said = (tmp_path / name / "log" / "check.txt").read_text()
        assert said.startswith("first") and text[1:] in said
    assert lines[-1].startswith(last.format(tmp_path))


def test_options_go_to_each_check(folders, tmp_path, capsys):
    options = ["--mode", "train", "--weights=trained-like", "--seed", "3", "--out", "results"]
    assert command.main([*folders(a="0x"), "--jobs", "1", *options]) == 0
    said = (tmp_path / "results" / "a" / "check.txt").read_text()
    out = str(tmp_path / "results" / "a")
    assert f"['--model', '{tmp_path / 'a'}', '--out', '{out}', " in said
    assert "'--mode', 'train'" in said and "'--seed', '3'" in said
    assert "'--weights', 'trained-like'" in said


def test_two_pairs_that_would_write_to_one_place(folders, tmp_path, capsys):
    folders(a="0x")
    assert command.main(["a", str(tmp_path / "a"), "--jobs", "1"]) == 2
    said = capsys.readouterr().err
    assert f"error: a and {tmp_path / 'a'} would both write to {tmp_path / 'a' / 'log'}" in said


def test_a_pair_that_is_not_there_is_a_sentence(folders, capsys):
    assert command.main(["nowhere"]) == 2
    assert "--model nowhere: neither a built-in model" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--model", "--json"])
def test_an_option_that_is_of_one_pair(option, capsys):
    with pytest.raises(SystemExit) as error:
        command.main(["fastformer", option, "x"])
    assert error.value.code == 2 and f"error: {option} has no use here" in capsys.readouterr().err


def test_how_many_at_a_time(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    sizes = {"SC_PAGE_SIZE": 1, "SC_AVPHYS_PAGES": 3 * command.NEEDED_BYTES}
    monkeypatch.setattr(os, "sysconf", sizes.get)
    assert [command.usual_jobs(count) for count in (1, 2, 9)] == [1, 2, 3]
    sizes["SC_AVPHYS_PAGES"] = 1
    assert command.usual_jobs(9) == 1


@pytest.mark.slow
def test_pairs_are_checked_beside_each_other(tmp_path, capfd):
    """The real check: one pair that is right, one that is wrong, one that cannot be compared."""
    made = {name: shutil.copytree(PAIR, tmp_path / name) for name in ("right", "wrong", "bad")}
    port = made["wrong"] / "paddle_model.py"
    text = port.read_text()
    assert "paddle.tanh(" in text
    port.write_text(text.replace("paddle.tanh(", "paddle.sin("))
    (made["bad"] / "paddle_model.py").unlink()
    assert door.main(["check", *map(str, made.values()), "--jobs", "2", "--no-report"]) == 2
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 4
    line = {
        str(folder): next(one for one in lines if one.startswith(f"{folder}: "))
        for folder in made.values()
    }
    right, wrong = line[str(made["right"])], line[str(made["wrong"])]
    assert ": ALIGNED in steps 1, 3 and 4 (eval and train) · " in right and "guide 3/3 (" in right
    assert ": NOT ALIGNED in 3 of 3 steps (" in wrong
    assert ": not compared: error: " in line[str(made["bad"])]
    assert lines[-1].startswith("1 of 3 pairs ALIGNED · 1 not aligned: ")
    for folder in made.values():
        assert (folder / "log" / "check.txt").is_file()
    assert (made["right"] / "log" / "report.json").is_file()
