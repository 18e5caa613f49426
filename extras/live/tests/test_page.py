"""What docs/live.md shows is what happens."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import twincheck
from twincheck.common.system.reasons import reasons_json
from twincheck.extras.live import Kind
from twincheck.extras.live.calls import check
from twincheck.extras.live.result import NotChecked, Result

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "live.md"


def blocks(page=PAGE):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)


@pytest.mark.slow
def test_the_first_page_has_a_call_that_runs_as_it_stands(capsys):
    (call,) = blocks(ROOT / "README.md")
    exec(call, {})
    assert capsys.readouterr().out.startswith("ALIGNED in step 1 ")
    # Planted: without what carries the weights, two fresh models are not alike.
    exec(call.replace(', carry="torch"', ""), {})
    assert "weights are not torch's" in capsys.readouterr().out


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_test_of_the_page_is_one(tmp_path):
    """With what is before it on the page red, with the sentence and the command to type; with the
    right form green; and one page and one bundle of all."""
    call, test = blocks()
    before = call.partition("result = ")[0]
    right = before.replace("approximate=True", "")
    assert right != before
    (tmp_path / "test_page.py").write_text(f"{before}\n\n{test}")
    other = test.replace("test_port", "test_right")
    (tmp_path / "test_right.py").write_text(f"{right}\n\n{other}")
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", "."]
    command += ["-p", "no:twincheck", "-p", "twincheck.extras.live.plugin", "-p", "no:xdist"]
    command += ["--twincheck-report", "kept"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "GELU's tanh form is off in torch and on in Paddle" in done.stdout
    assert re.search(r"-m pytest test_page\.py::test_\w+\n", done.stdout)
    assert "extras/live" not in done.stdout and "plugin.py" not in done.stdout  # no frame of ours
    assert "twincheck: NOT ALIGNED in 1 of " in done.stdout
    assert (tmp_path / "kept" / "report.html").is_file()
    assert (tmp_path / "kept" / "bundle.zip").is_file()


def test_what_people_read_is_in_their_language_and_what_programs_read_is_not(monkeypatch):
    finding = {"sentence": "a weight is off", "verdict": "DIVERGED", "step": 1, "key": "weights/w"}
    finding |= {"module": None, "torch": None, "paddle": None, "numbers": {"gap": 1, "allowed": 0}}
    finding |= {"settings": [], "edits": [], "commands": [], "further": []}
    told = {"sentence": Kind.WEIGHT_NOT_TORCHS(key="w", gap=0.78)}
    told["reasons"] = reasons_json([told["sentence"]])
    step = {"step": 1, "title": "forward", "overall": "NOT ALIGNED", "counts": {"DIVERGED": 1}}
    document = {
        "overall": "NOT ALIGNED",
        "exit_code": 1,
        "modes": ["eval"],
        "findings": [finding | told],
    }
    document |= {"steps": [step | {"modes": ["eval"]}], "summary_reasons": ["NOT ALIGNED"]}
    result, error = Result(document, Path.cwd()), NotChecked(Kind.INPUTS_WITHOUT_ARRAY())
    assert result.message().startswith("NOT ALIGNED\nstep 1: a weight is not torch's")
    assert str(error) == error.args[0]
    monkeypatch.setenv("LANGUAGE", "zh")
    said = result.message().splitlines()
    assert said[1].startswith(
        '第 1 步：有一个权重与 torch 的不同：w，最多相差 7.8e-01；carry="torch" 会把'
    )
    assert said[3].strip() == "float64 差距 1.00e+00，误差上限 0.00e+00"
    assert "1 前向对齐<td>NOT ALIGNED" in result._repr_html_()
    assert result.first.sentence == told["sentence"]
    assert (str(error), error.args[0][:6]) == ("inputs：其中没有数组", "inputs")
