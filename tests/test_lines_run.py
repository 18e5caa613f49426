"""Lines of a user's functions that no run has run: named by line; of what all ran nothing."""

import importlib.util
import json
import sys
from types import SimpleNamespace

import pytest
from builders import a_case, a_net, twincheck, write_pair

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
LAYER, BATCH = [7, 8, 9], []  # what norm leaves of each kind


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


def heard(module, kind="layer", **more):
    """Function -> lines that no call of norm, and of forward with what is given, has run."""
    with lines_run.heard():
        module.norm(kind)
        if more:
            module.Net().forward(**more)
    return lines_run.not_run().get(module.__file__, {})


def test_lines_are_named_but_for_those_that_only_refuse_or_tell(module):
    found = heard(module, many=[])
    assert found["norm"] == LAYER
    assert found["Net.forward"] == [34, 37, 38], "an empty loop's body, an error that none raised"
    assert found["Net.forward.inner"] == [] and "called_by_nobody" not in found
    found = heard(module, "batch", many=[1], more=None)
    assert found["norm"] == BATCH == found["Net.forward"]


def test_nothing_is_said_beside_a_debugger_or_of_other_code_than_the_file_s(module):
    def debugger(frame, event, argument):
        return None

    former = sys.gettrace()
    sys.settrace(debugger)
    try:
        found = heard(module)
        assert sys.gettrace() is debugger and not found
    finally:
        sys.settrace(former)
    other = compile(FUNCTIONS.replace("found = 1", "found = 5"), module.__file__, "exec")
    module.norm.__code__ = next(c for c in other.co_consts if getattr(c, "co_name", "") == "norm")
    assert not heard(module)


def test_what_ran_while_files_were_imported_counts_for_later_runs(module):
    with lines_run.heard(imports=True):
        module.norm("batch")
    for _ in range(2):
        lines_run.begin(True)
        assert heard(module)["norm"] == []


def test_where_all_lines_have_run_a_training_is_left_alone(module):
    for kind, left in (("layer", LAYER), ("batch", BATCH)):
        for _ in range(300):
            found = heard(module, kind)
        assert found["norm"] == left
    with lines_run.heard():
        assert sys.gettrace() is None


def test_a_line_that_any_step_has_run_is_no_line_that_never_ran():
    functions = dict(forward=[3, 4], loss=[9]), dict(forward=[4, 5]), dict(loss=[])
    steps = [SimpleNamespace(model="net", not_run={"/home/port.py": one}) for one in functions]
    assert lines_not_run(steps) == {"net": {"/home/port.py": [4]}}
    assert in_short(steps) == "lines not run: 1 of port.py" and not in_short(steps[2:])


CASE = a_case('"x": rng.standard_normal((3, 4)), "targets": rng.standard_normal((3, 4))')
CASE = CASE.replace("    rng =", "    if config:\n        seed += 1\n    rng =")
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
TORCH = "from torch_help import scaled\n" + a_net(
    """
    if not norm:
        raise ValueError("it has one")
    self.fc = nn.Linear(4, 4)
    """,
    "return scaled(self.fc(x), mask)",
    loss='squared(outputs - inputs["targets"])',
    takes="x, mask=None",
    settings=", norm=True",
)
TORCH += """

def squared(off):
    found = (off**2).mean()
    if found.ndim:
        found = found.sum()
    return found
"""
OF_LOSS = "    if found.ndim:\n        found = found.sum()\n"
BRANCH = "    if mask is not None:\n        h = h * mask\n"
HELPERS = {"torch_help.py": [3], "paddle_help.py": [3]}
LOSS = 1 + TORCH.split("\n").index("        found = found.sum()")
SCORE = 1 + (CASE + METRIC).split("\n").index("        error = 0.0")


@pytest.mark.parametrize(
    ("command", "case", "branch", "files"),
    [
        ("check", "", BRANCH, HELPERS | {"torch_model.py": [LOSS], "paddle_model.py": [LOSS]}),
        ("step2", METRIC, "", {"case.py": [SCORE]}),
        ("step1", "", "", {}),
    ],
)
def test_a_branch_that_no_input_takes_is_named_in_every_place(
    tmp_path, command, case, branch, files
):
    """Of a helper, of the loss and of the metric; a refusal, make_inputs are none of it."""
    torch, out = TORCH if branch else TORCH.replace(OF_LOSS, ""), tmp_path / "rows.json"
    pair = write_pair(tmp_path / "net", CASE + case, torch)
    for side in ("torch", "paddle"):
        (pair / f"{side}_help.py").write_text(f"def scaled(h, mask):\n{branch}    return h + 1\n")
    printed = twincheck(command, str(pair), "--json", str(out), folder=tmp_path)
    document = json.loads(out.read_text())
    found = document.get("not_run", {}).get("net", {})
    assert {path.rpartition("/")[2]: lines for path, lines in found.items()} == files
    assert ("not_run" in document) == ("never ran" in printed) == bool(files)
    if branch:
        short = "4 lines in 4 files not run"
        assert short in printed.strip().split("\n")[-1] and short in document["summary"]
        assert document["overall"] == "ALIGNED"
        assert "net/paddle_help.py: line 3 never ran" in printed
        page = (pair / "log" / "report.html").read_text()
        assert "paddle_help.py: line 3 never ran" in page and "h = h * mask" in page
