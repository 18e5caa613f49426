"""Lines of a user's functions that no run has run: named by line; of what all ran nothing."""

import importlib.util
import json
import sys

import pytest
from builders import twincheck

from twincheck.common.report.not_run import in_short, lines_not_run
from twincheck.common.sides import lines_run

FUNCTIONS = '''\
import warnings


def norm(kind, x=None):
    """Doc."""
    if kind == "layer":
        found = 1
    elif kind == "batch":
        found = 2
        found += 1
    else:
        raise ValueError(
            kind
        )
    if found > 9:
        warnings.warn("large")
    if x is not None and x < 0:
        what = f"{x} is negative"
        raise ValueError(what)
    assert found, (
        "no norm"
    )
    return found


def called_by_nobody():
    return 3


class Net:
    def forward(self, many, more=1):
        def inner(one):
            return one * 2

        total = 0
        for one in many:
            total += one
        try:
            return total + inner(more)
        except TypeError:
            return None
'''


@pytest.fixture
def module(tmp_path):
    """The functions, imported, while nothing has been heard so far."""
    path = tmp_path / "port.py"
    path.write_text(FUNCTIONS)
    spec = importlib.util.spec_from_file_location("port_of_lines", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    lines_run.begin(True)
    yield found
    lines_run.begin(False)
    lines_run.forget()


def heard(module, *calls):
    """Function -> lines that none of the calls has run."""
    with lines_run.heard():
        for call in calls:
            call()
    return lines_run.not_run().get(module.__file__, {})


def test_lines_are_named_but_for_those_that_only_refuse_or_tell(module):
    found = heard(module, lambda: module.norm("layer"), lambda: module.Net().forward([]))
    assert found["norm"] == [8, 9, 10]
    assert found["Net.forward"] == [37, 40, 41], "an empty loop's body, an error that none raised"
    assert found["Net.forward.inner"] == [] and "called_by_nobody" not in found
    found = heard(module, lambda: module.norm("batch"), lambda: module.Net().forward([1], None))
    assert found["norm"] == [] == found["Net.forward"]


def test_a_debugger_is_left_alone_and_then_nothing_is_said(module):
    def debugger(frame, event, argument):
        return None

    former = sys.gettrace()
    sys.settrace(debugger)
    try:
        found = heard(module, lambda: module.norm("layer"))
        assert sys.gettrace() is debugger and not found
    finally:
        sys.settrace(former)


def test_of_other_code_than_the_file_s_nothing_is_said(module):
    other = compile(FUNCTIONS.replace("found = 1", "found = 5"), module.__file__, "exec")
    module.norm.__code__ = next(c for c in other.co_consts if getattr(c, "co_name", "") == "norm")
    assert not heard(module, lambda: module.norm("layer"))


def test_what_ran_while_files_were_imported_counts_for_later_runs(module):
    with lines_run.heard(imports=True):
        module.norm("batch")
    for _ in range(2):
        lines_run.begin(True)
        assert heard(module, lambda: module.norm("layer"))["norm"] == []


def test_where_all_lines_have_run_a_training_is_left_alone(module):
    def calls(count, kind="layer"):
        for _ in range(count):
            found = heard(module, lambda: module.norm(kind))
        return found

    assert calls(300)["norm"] == [8, 9, 10] and calls(1, "batch")["norm"] == []
    calls(300)
    with lines_run.heard():
        assert sys.gettrace() is None


class _Result:
    def __init__(self, **functions):
        self.model, self.not_run = "net", {"/home/me/port.py": functions}


def test_a_line_that_any_step_has_run_is_no_line_that_never_ran():
    steps = [_Result(forward=[3, 4], loss=[9]), _Result(forward=[4, 5]), _Result(loss=[])]
    assert lines_not_run(steps) == {"net": {"/home/me/port.py": [4]}}
    assert in_short(steps) == "lines not run: 1 of port.py" and not in_short(steps[2:])


SIDES = {
    "torch": "import torch\nfrom torch import nn\n",
    "paddle": "import paddle\nfrom paddle import nn\n",
}
NET = """\


class Net(nn.{module}):
    def __init__(self, norm=True):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        if not norm:
            raise ValueError("it has one")
        self.norm = nn.LayerNorm(4)

    def forward(self, x, mask=None):
        h = self.norm(self.fc(x))
        return scaled(h, mask){planted}


def loss(outputs, inputs):
    found = ((outputs - inputs["targets"]) ** 2).mean()
    if found.ndim:
        found = found.sum()
    return found


def build(config):
    return Net()
"""
HELPER = """\
def scaled(h, mask):
    if mask is not None:
        h = h * mask
    return h + 1
"""
CASE = """
import numpy as np

CONFIGS = {"default": {}}


def make_inputs(config, seed):
    if config:
        seed += 1
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((3, 4)), "targets": rng.standard_normal((3, 4))}
"""
METRIC = """

def make_data(config, seed):
    parts = ((name, make_inputs(config, seed + i)) for i, name in enumerate(("train", "test")))
    return {name: {k: np.tile(v, (4, 1)) for k, v in made.items()} for name, made in parts}


def metric(outputs, inputs):
    error = np.mean((next(iter(outputs.values())) - inputs["targets"]) ** 2)
    if error < 0:
        error = 0.0
    return {"mse": float(error)}
"""


@pytest.fixture
def pair(tmp_path):
    """Two sides that are one text, with a helper beside each."""
    folder = tmp_path / "net"
    folder.mkdir()
    (folder / "case.py").write_text(CASE)
    for side, imports in SIDES.items():
        text = f"{imports}from {side}_help import scaled\n" + NET
        module = {"torch": "Module", "paddle": "Layer"}[side]
        (folder / f"{side}_model.py").write_text(text.format(module=module, planted=""))
        (folder / f"{side}_help.py").write_text(HELPER)
    return folder


def said(folder, *command):
    """The terminal's last line, and the JSON's lines by file."""
    out = folder.parent / "rows.json"
    printed = twincheck(*command, str(folder), "--json", str(out), folder=folder.parent)
    document = json.loads(out.read_text())
    files = document.get("not_run", {}).get("net", {})
    by_name = {path.rpartition("/")[2]: lines for path, lines in files.items()}
    return printed, document, by_name


def test_a_branch_that_no_input_takes_is_named_in_every_place(pair):
    """Of the port, the helper and the loss; a refusal, make_inputs are none of it."""
    printed, document, files = said(pair, "check")
    lines = (pair / "torch_model.py").read_text().split("\n")
    loss = 1 + lines.index("        found = found.sum()")
    assert files == {f"{side}_help.py": [3] for side in SIDES} | {
        f"{side}_model.py": [loss] for side in SIDES
    }
    assert document["overall"] == "ALIGNED"
    assert "4 lines in 4 files not run" in printed.strip().split("\n")[-1]
    assert "4 lines in 4 files not run" in document["summary"]
    assert "net/paddle_help.py: line 3 never ran" in printed
    page = (pair / "log" / "report.html").read_text()
    assert "paddle_help.py: line 3 never ran" in page and "h = h * mask" in page


def test_of_a_pair_all_of_whose_lines_run_nothing_is_said(pair):
    for side in SIDES:
        (pair / f"{side}_help.py").write_text("def scaled(h, mask):\n    return h + 1\n")
        path = pair / f"{side}_model.py"
        text = path.read_text()
        path.write_text(text.replace("    if found.ndim:\n        found = found.sum()\n", ""))
    printed, document, files = said(pair, "check")
    assert not files and "not_run" not in document
    assert "not run" not in printed and "never ran" not in printed


def test_a_branch_of_the_metric_is_named(pair):
    (pair / "case.py").write_text(CASE + METRIC)
    _, _, files = said(pair, "step2")
    assert files["case.py"] == [1 + (CASE + METRIC).split("\n").index("        error = 0.0")]
