"""The schema of --json: every check's output has it, and what breaks it is found."""

import json

import jsonschema
import pytest
import test_terminal
from checkout import ROOT, Checkout
from test_loop import FAULTS, PAIR

from twincheck.common.check.report_json import json_text
from twincheck.common.check.result import Result
from twincheck.common.check_all import all_steps
from twincheck.common.report import terminal
from twincheck.common.verdict.row import Row, claim

SCHEMA = json.loads((ROOT / "docs" / "result.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
STEPS = all_steps()


def problems(document) -> list[str]:
    """List what of a document is not as the schema says."""
    return [error.message for error in VALIDATOR.iter_errors(document)]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


# ---- results that no framework made --------------------------------------------------------------


def red_row(key: str, verdict: str = "DIVERGED", **more) -> Row:
    """A terminal's, with the step and the model that a result gives it."""
    row = test_terminal.red_row(key, verdict, mean_abs=float("nan"), **more)
    row.step, row.model = 1, "m"
    return row


def told(*results: Result, **more) -> dict:
    """Return what --json says of results, which is as the schema says."""
    document = json.loads(json_text(results, **more))
    assert problems(document) == []
    return document


def of_layers(tmp_path, step=STEPS[0], **more) -> Result:
    """Two layers, each in two cases, built with another epsilon; and a claim."""
    lines = ["import nn", "", "class Net:", "    norm = nn.LayerNorm(8, epsilon=1e-12)  # é", ""]
    for side in ("torch", "paddle"):
        (tmp_path / f"{side}_model.py").write_text("\n".join(lines))
    layers = [f"{case}blocks.{i}.norm" for case in ("main/", "noisy/") for i in (0, 1)]
    here = {side: f"{tmp_path}/{side}_model.py:4" for side in ("torch", "paddle")}
    built = {"torch": 1e-5, "paddle": 1e-12}
    known = dict(cases=("main/", "noisy/"), rows=[red_row(key) for key in layers])
    known["rows"].append(claim("main/witness/sum/paddle", 1.0, 0.1, "the bias"))
    known["rows"][-1].step, known["rows"][-1].model = 1, "m"
    known |= dict(places={side: dict.fromkeys(layers, place) for side, place in here.items()})
    known |= dict(made={side: dict.fromkeys(layers, place) for side, place in here.items()})
    known["settings"] = {s: dict.fromkeys(layers, {"epsilon": e}) for s, e in built.items()}
    known["classes"] = {side: dict.fromkeys(layers, "LayerNorm in place") for side in here}
    return Result(step, "m", str(tmp_path), folder=tmp_path / "log" / "m", **(known | more))


def test_a_cause_that_comes_back_is_one_finding(tmp_path, capsys):
    result = of_layers(tmp_path)
    found, bias = told(result)["findings"]
    assert [found["kind"], bias["kind"]] == ["setting", "claim"]
    assert found["key"] == "main/blocks.0.norm" and found["module"] == "blocks.0.norm"
    further = ["main/blocks.1.norm", "noisy/blocks.0.norm", "noisy/blocks.1.norm"]
    assert found["further"] == [{"step": 1, "key": key} for key in further]
    wanted = {"name": "epsilon", "torch": 1e-5, "paddle": 1e-12, "wanted": 1e-5}
    assert found["settings"] == [wanted]
    assert found["torch"]["class"] == found["paddle"]["class"] == "LayerNorm"
    assert [line["number"] for line in found["paddle"]["lines"]] == [2, 3, 4]
    (edit,) = found["edits"]
    assert edit["line"] == found["paddle"]["line"] == 4
    assert edit["new"] == "    norm = nn.LayerNorm(8, epsilon=1e-05)  # é"
    assert found["numbers"]["mean_abs"] is None and found["numbers"]["gap"] == 4.9e-6
    assert (found["numbers"]["digits_shared"], found["numbers"]["digits_known"]) == (5.4, 7.52)
    assert bias["torch"] is None and bias["edits"] == [] and bias["note"] == "the bias"
    terminal.show_step(result.step, [result])
    out = capsys.readouterr().out
    assert found["sentence"] in out and bias["sentence"] in out
    assert f"and in 3 more places: {', '.join(further)}\n" in out
    assert all(each["command"] in out for each in found["commands"])


def test_a_cause_that_comes_back_in_a_later_step_is_the_same_finding(tmp_path):
    first, later = of_layers(tmp_path), of_layers(tmp_path, STEPS[3])
    found, bias = told(later, first)["findings"]
    assert found["step"] == 1
    assert [each["step"] for each in found["further"]] == [1, 1, 1, 4, 4, 4, 4]
    other = of_layers(tmp_path, rows=[red_row("main/blocks.0.norm")])
    other.model = "another"
    assert [each["model"] for each in told(first, other)["findings"]] == ["m", "m", "another"]


def test_what_passes_is_no_finding(tmp_path):
    rows = [red_row("main/blocks.0.norm"), red_row("main/x", "CONSTANT"), red_row("main/y", "FLIP")]
    rows += [red_row("main/z", "PRECISION"), red_row("main/carried", "CARRIED")]
    keys = [f["key"] for f in told(of_layers(tmp_path, rows=rows))["findings"]]
    assert keys == ["main/blocks.0.norm", "main/z"]
    allowed = told(of_layers(tmp_path, rows=rows, allow=("PRECISION",)))["findings"]
    assert [f["key"] for f in allowed] == ["main/blocks.0.norm"]
    green = told(of_layers(tmp_path, rows=rows[1:3]))
    assert green["overall"] == "ALIGNED" and green["findings"] == []


def test_a_model_that_could_not_be_compared_is_a_finding(tmp_path):
    document = told(Result(STEPS[2], "m", error="no such thing"), of_layers(tmp_path))
    assert document["overall"] == "NOT COMPARED"
    assert [f["kind"] for f in document["findings"]] == ["setting", "claim", "error"]
    assert document["findings"][2]["sentence"] == "no such thing"
    assert document["steps"][0]["error"] == "no such thing"
    (empty,) = told(Result(STEPS[0], "m"))["findings"]
    assert empty["sentence"] == "nothing was compared: the logs have no rows"
    (whole,) = told(error="no such model")["findings"]
    assert whole["step"] is whole["model"] is None and whole["sentence"] == "no such model"


# ---- what checks write ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy with the example, and a second pair beside it: the example with three faults."""
    made = Checkout(tmp_path_factory.mktemp("programs"), pairs=(PAIR,))
    wrong = made.path("wrong")
    wrong.mkdir()
    for path in made.path(PAIR).glob("*.py"):
        (wrong / path.name).write_text(path.read_text())
    for old, new in FAULTS["layers"]:
        made.replace("wrong/paddle_model.py", old, new)
    # What steps 2 and 5 come to is asked for its form alone.
    made.replace("wrong/case.py", '"train": 1176, "test": 800', '"train": 128, "test": 40')
    made.replace("wrong/case.py", '"epochs": 5', '"epochs": 1')
    return made


@pytest.fixture(scope="module")
def documents(checkout):
    """Name -> exit status and document, of checks of many kinds."""
    good, wrong = str(checkout.path(PAIR)), str(checkout.path("wrong"))
    report, found = checkout.elsewhere / "all.json", {}
    typed = {
        "green": (1, "--model", good),
        "red": (1, "--model", wrong),
        "loss": (3, "--model", wrong),
        "compare-only": (1, "--model", wrong, "--compare-only"),
        "stale": (1, "--model", good, "--compare-only", "--case", "main"),
        "no such model": (1, "--model", "no_such_model"),
    }
    for name, (step, *words) in typed.items():
        done, document = checkout.rows(step, *words)
        found[name] = done.returncode, document
    done = checkout.module("twincheck", "check", "--model", wrong, "--json", str(report))
    return found | {"all": (done.returncode, json.loads(report.read_text()))}


STATUS = {"green": 0, "red": 1, "loss": 1, "compare-only": 1}
STATUS |= {"stale": 2, "no such model": 2, "all": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATUS)
def test_what_a_check_writes_is_as_the_schema_says(documents, name):
    status, document = documents[name]
    assert problems(document) == []
    assert status == document["exit_code"] == STATUS[name]


@pytest.mark.slow
def test_where_nothing_was_compared_the_sentence_is_in_the_file(documents):
    status, document = documents["no such model"]
    (found,) = document["findings"]
    assert "no_such_model" in found["sentence"] and document["rows"] == []
    assert "give the same --case options" in documents["stale"][1]["findings"][0]["sentence"]
