"""`twincheck`: its commands, what it makes of the words behind them, and where results go."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from checkout import ROOT

from twincheck import __main__ as door
from twincheck.common.system import start

COMMANDS = sorted({*door.STEPS, *door.OF_THE_CORE, *door.OF_EXTRAS, "check", "report"})
OFFERED = [name for name in COMMANDS if name not in door._HIDDEN]
# A command of a checkout in a text: what people who came by `twincheck` cannot type.
OLD = re.compile(r"python (-m (common|examples)\.|step\d_\w+/|common/)")


def twincheck(folder, *words):
    """The command in a folder."""
    command = [sys.executable, "-m", "twincheck", *words]
    values = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True)


def test_help_names_every_command(tmp_path):
    done = twincheck(tmp_path)
    assert done.returncode == 0 and done.stdout == twincheck(tmp_path, "--help").stdout
    text = done.stdout.replace("step2 metric, step3 loss, step4 backward", "step2 step3 step4")
    named = {word for word in re.findall(r"[\w-]+", text)}
    assert set(OFFERED) <= named


@pytest.mark.parametrize("command", OFFERED)
def test_the_help_of_a_command_is_one_that_can_be_typed(command, tmp_path):
    done = twincheck(tmp_path, command, "--help")
    assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr
    assert "twincheck" in done.stdout and not OLD.search(done.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "meant"),
    [("verfy", "did you mean verify?"), ("xyz", "twincheck --help lists them"), ("liv", "--help")],
)
def test_an_unknown_command(word, meant, tmp_path):
    done = twincheck(tmp_path, word)
    assert done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1
    assert word in done.stderr and meant in done.stderr


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


def test_what_a_red_check_tells_people_to_type_can_be_typed(tmp_path):
    pair = tmp_path / "small"
    shutil.copytree(ROOT / "tests/pairs/small_cnn", pair)
    path = pair / "paddle_model.py"
    path.write_text(path.read_text().replace("paddle.tanh(", "paddle.sin("))
    done = twincheck(tmp_path, "step1", "small")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and not OLD.search(said)
    (show,) = set(re.findall(r"twincheck show \S+ .*", said))
    again = twincheck(tmp_path, *show.split()[1:])
    assert again.returncode == 0 and "DIVERGED" in again.stdout, again.stdout + again.stderr


def test_texts_are_spelled_as_people_came(monkeypatch):
    text = "run `python step1_forward/check_step1.py`, or python -m common.check_all; see\n"
    assert start.spelled(text) == text
    monkeypatch.setattr(start.twincheck, "COMMAND", ("twincheck",))
    assert start.spelled(text) == "run `twincheck step1`, or twincheck check; see\n"
    assert start.spelled("python -m common.pr_report") == "twincheck pr-report"
    assert start.spelled("python -m examples.gallery --page") == "twincheck gallery --page"
    assert start.spelled("python -m pip install x") == "python -m pip install x"
