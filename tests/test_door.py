"""`twincheck`: its commands, what it makes of the words behind them, and where results go."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from checkout import ROOT
from printed import of_page, printed, run

from twincheck import __main__ as door
from twincheck.common.system.door import VARIABLE, for_others, to_type

OFFERED = sorted(name for name in door.commands() if not name.startswith("_"))
# A command of a checkout in a text: what people who came by `twincheck` cannot type.
OLD = re.compile(r"python (-m (common|examples)\.|step\d_\w+/|common/)")

TYPED = to_type()


def twincheck(folder, *words):
    """The command in a folder."""
    command = [sys.executable, "-m", "twincheck", *words]
    values = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True)


@pytest.mark.parametrize("module", ["common.show", "common.bundle"])
def test_a_former_spelling_is_told_the_one_of_today(module):
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    assert "`python -m common.X` is gone: type `" in done.stderr and done.stderr.count("\n") == 1


def test_help_names_every_command(tmp_path):
    done = twincheck(tmp_path)
    assert done.returncode == 0 and done.stdout == twincheck(tmp_path, "--help").stdout
    assert OFFERED == sorted(re.findall(r"(?m)^    ([\w-]+)  +\S", done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("command", OFFERED)
def test_the_help_of_a_command_is_one_that_can_be_typed(command, tmp_path):
    done = twincheck(tmp_path, command, "--help")
    assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr
    assert f"{TYPED} {command}" in done.stdout.replace("'", "") and not OLD.search(done.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "meant"),
    [("verfy", "did you mean verify?"), ("xyz", "--help` lists them"), ("_liv", "--help")],
)
def test_an_unknown_command(word, meant, tmp_path):
    done = twincheck(tmp_path, word)
    assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1
    assert word in done.stderr and meant in done.stderr


@pytest.mark.slow
def test_results_are_beside_their_pair(tmp_path):
    folder = tmp_path / "my pairs"
    shutil.copytree(ROOT / "tests/pairs/small_cnn", folder / "small")
    done = twincheck(folder, "step1", "small")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("ALIGNED in step 1 ")
    assert [path.name for path in folder.iterdir()] == ["small"]
    assert (folder / "small" / "log" / "step1_forward").is_dir()
    done = twincheck(folder, "show", "logits", "small")
    assert done.returncode == 0 and "logits" in done.stdout, done.stdout + done.stderr
    # A folder that is named goes before.
    done = twincheck(folder, "step1", "small", "--out", "elsewhere", "--no-report")
    assert done.returncode == 0 and (folder / "elsewhere" / "step1_forward").is_dir()
    # Of several there is one result, here.
    shutil.copytree(ROOT / "tests/pairs/small_cnn", folder / "other")
    (folder / "other" / "paddle_model.py").write_text("1 / 0")
    done = twincheck(folder, "check", "small", "other", "--no-report")
    assert done.returncode == 2 and "other" in done.stdout + done.stderr
    assert (folder / "log" / "step4_backward" / "small").is_dir(), done.stdout + done.stderr


@pytest.mark.slow
def test_what_a_red_check_tells_people_to_type_can_be_typed(tmp_path):
    """From another folder; the pair's has a space in its name."""
    pair, other = tmp_path / "my pairs" / "small", tmp_path / "other"
    shutil.copytree(ROOT / "tests/pairs/small_cnn", pair)
    other.mkdir()
    path = pair / "paddle_model.py"
    path.write_text(path.read_text().replace("paddle.tanh(", "paddle.sin("))
    done = twincheck(other, "step1", "../my pairs/small")
    assert done.returncode == 1 and not OLD.search(done.stdout + done.stderr)
    found = list(printed(done.stdout))
    assert {one.command for one in found} == {"show", "step1", "mend", "issue"}
    assert not [one for one in found if one.kind == "loose"]
    (show,) = {one.text for one in found if one.command == "show"}
    assert show == done.stdout.splitlines()[-1].partition(" · next: ")[2]
    again = run(show, other)
    assert again.returncode == 0 and "DIVERGED" in again.stdout, again.stdout + again.stderr
    (by,) = of_page(pair / "log/step1_forward/report.html", "Written")
    assert by.words[1:] == ("step1", "../my pairs/small")


def test_how_a_person_came_is_how_commands_are_spelled(tmp_path, monkeypatch):
    folder = tmp_path / "my environment" / "bin"
    folder.mkdir(parents=True)
    program = folder / "twincheck"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.chdir(tmp_path)
    assert to_type("show", "a b") == "'my environment/bin/twincheck' show 'a b'"
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(folder))
    assert to_type("show", ROOT / "docs") == "twincheck show docs"
    # By another program: what is beside this Python, where that runs this package.
    monkeypatch.setattr(sys, "argv", [str(ROOT / "step1_forward/check_step1.py")])
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    assert shlex.split(to_type("show"))[-2:] == ["twincheck", "show"]
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "python"))
    assert to_type("show") == f"{tmp_path / 'bare' / 'python'} twincheck show"
    # A process that a command starts has another Python; its person came as that command's did.
    monkeypatch.setenv(VARIABLE, "'a b/twincheck'")
    assert to_type("show") == "'a b/twincheck' show"
    assert for_others("verify", "a b.zip") == "twincheck verify 'a b.zip'"
