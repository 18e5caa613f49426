"""A docstring begins with its verb or its subject, and with no question; a module's is help."""

import ast
import re

import pytest
from checkout import ROOT

from tools import rooms
from twincheck.step5_train import envelope

pytestmark = pytest.mark.lint
ASKS = re.compile(r"(What|Whatever|Those|That|Which|Whether|How|Where|Who|Why|When|The same)\b")
HASHED = (*envelope._TRAINING, "common/models/")  # stored envelopes are of these files as they are


def asking(paths, root):
    """Give file:line and the first line of each docstring that begins with a question word."""
    for file in paths:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if hasattr(node, "decorator_list") else ""
            if ASKS.match(text or ""):
                yield f"{file.relative_to(root)}:{node.body[0].lineno}: {text.splitlines()[0]}"


def test_no_docstring_asks():
    asked = asking(rooms.python_files(), ROOT)
    assert [one for one in asked if not one.startswith(HASHED)] == []
