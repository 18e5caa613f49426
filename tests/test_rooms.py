"""The rooms of common/ import what tools/rooms.py allows, and a planted import that it does not
allow is found."""

import shutil

import pytest
from checkout import ROOT

from tools import rooms

pytestmark = pytest.mark.lint


@pytest.fixture
def copy(tmp_path):
    """A copy of common/'s Python files that a test may change."""
    ignore = shutil.ignore_patterns("__pycache__", "*.md")
    for name in ("common", "twincheck"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    return tmp_path


def add(copy, name, line):
    """Put an import into a file of the copy, as its last line."""
    path = copy / ("twincheck" if name in FACES else "common") / name
    path.write_text(f"{path.read_text()}\n\n{line}\n")


FACES = ("torch_side.py", "paddle_side.py")
BY_NAME = 'X = __import__("importlib").import_module("twincheck.common.logs.reader")'


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("system/files.py", "import OURS.logs.reader", "system may not import logs"),
        ("compare.py", "from twincheck import torch_side", "compare may not import torch_side"),
        ("torch_side.py", "from OURS.pair.tape import Tape", "torch_side may not import pair"),
        ("verdict/rule.py", "def later():\n    from OURS.weights import read", "may not import"),
        ("system/files.py", BY_NAME, "not"),
        ("check/steps.py", "from OURS.sides.session import current", "check may not import sides"),
    ],
)
def test_a_planted_import_is_found(copy, name, line, said):
    assert rooms.violations(copy) == []
    add(copy, name, line.replace("OURS", "twincheck.common"))
    problems = rooms.violations(copy)
    assert any(said in problem and name in problem for problem in problems), problems


def test_the_core_and_the_extras_import_no_extra(copy):
    extra = copy / "extras" / "one" / "command.py"
    step = copy / "step5_train" / "torch" / "train.py"
    own = "from extras.one import words\nfrom extras.shared import tables"
    for file, lines in ((extra, own), (step, "import numpy")):
        file.parent.mkdir(parents=True)
        file.write_text(f"{lines}\n")
    assert rooms.violations(copy) == []
    add(copy, "check/steps.py", "def later():\n    from extras.one.command import main")
    extra.write_text("import extras.other\n")
    step.write_text("from extras import one\n")
    problems = [one for one in rooms.violations(copy) if "extras" in one]
    assert len(problems) == 3
    assert "the core may not import extras.one.command.main" in problems[0]
    assert problems[1] == "step5_train/torch/train.py:1: the core may not import extras.one"
    assert problems[2] == "extras/one/command.py:1: extras.one may not import extras.other"


def test_more_lines_than_the_ceiling_are_found(copy, monkeypatch, capsys):
    assert rooms.main([str(copy)]) == 0
    most = rooms.lines(copy) - 1
    monkeypatch.setattr(rooms, "CEILING", most)
    assert rooms.main([str(copy)]) == 1
    said = f"{most + 1:,} lines of Python, above the ceiling of {most:,}"
    assert capsys.readouterr().out.splitlines()[-1] == said
