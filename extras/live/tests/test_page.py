"""What docs/live.md shows is what happens."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import twincheck
from twincheck.extras.live.calls import check
from twincheck.extras.live.result import Result

PAGE = Path(__file__).resolve().parents[3] / "docs" / "live.md"


def blocks():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def test_the_call_says_what_the_page_says(capsys):
    call, _ = blocks()
    space = {}
    exec(call, space)
    result = space["result"]
    assert not result.aligned and f"`{result.first.sentence}`" in PAGE.read_text()
    assert capsys.readouterr().out.startswith("NOT ALIGNED")


def test_every_argument_and_every_part_of_a_result_is_named():
    text = PAGE.read_text()
    for name in inspect.signature(check).parameters:
        assert f"`{name}`" in text, name
    own = {name for name in vars(Result) if not name.startswith("_")} - {"message"}
    for name in own | {"aligned", "word", "findings", "folder", "document"}:
        assert f"`{name}`" in text or f"`{name}()`" in text, name
    for name in ("check", "assert_aligned", "NotChecked"):
        assert f"twincheck.{name}" in text and getattr(twincheck, name)


def test_the_test_of_the_page_is_one(tmp_path):
    """With what is before it on the page: red, with the sentence; with the right form green."""
    call, test = blocks()
    before = call.partition("result = ")[0]
    for wrong, status in ((True, 1), (False, 0)):
        text = before if wrong else before.replace("approximate=True", "")
        assert wrong or text != before
        (tmp_path / "test_page.py").write_text(text + "\n\n" + test)
        command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", "."]
        command += ["-p", "no:twincheck", "-p", "twincheck.extras.live.plugin", "-p", "no:xdist"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode == status, done.stdout
        assert ("GELU's tanh form is off in torch and on in Paddle" in done.stdout) == wrong
