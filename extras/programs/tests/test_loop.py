"""A port is mended from --json alone; a loop that is told nothing mends nothing."""

import copy

import pytest
from checkout import ROOT, Checkout

from twincheck.extras.programs.tests.loop import mend

PAIR = "examples/text_classifier"
# Three faults each: what stands in the Paddle side, and what is planted.
FAULTS = {
    "layers": (
        ("self.norm2 = nn.LayerNorm(width)", "self.norm2 = nn.LayerNorm(width, epsilon=1e-12)"),
        ("2 * width), nn.GELU()", "2 * width), nn.ReLU()"),
        ("F.softmax(scores, axis=-1)", "F.softmax(scores, axis=-2)"),
    ),
    "arithmetic": (
        ("nn.BatchNorm1D(width)", "nn.BatchNorm1D(width, momentum=0.1)"),
        ("self.words(input_ids) + self", "self.words(input_ids) * 4.0 + self"),
        ("x = x + attended", "x = x - attended"),
    ),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy for all loops."""
    return Checkout(tmp_path_factory.mktemp("loop"), pairs=(PAIR,))


@pytest.fixture
def port(checkout, request):
    """A pair's folder with three faults, and a function that checks it and gives what is told."""
    folder = checkout.path("port")
    folder.mkdir(exist_ok=True)
    for path in (ROOT / PAIR).glob("*.py"):
        (folder / path.name).write_text(path.read_text())
    for old, new in FAULTS[request.param]:
        checkout.replace("port/paddle_model.py", old, new)
    return folder, lambda: checkout.rows(1, "--model", str(folder))[1]


@pytest.mark.slow
@pytest.mark.parametrize("port", FAULTS, indirect=True)
def test_a_loop_mends_three_faults_from_the_document_alone(checkout, port, request):
    folder, check = port
    planted = (folder / "paddle_model.py").read_text()
    kept = mend(check)
    done, document = checkout.rows(1, "--model", str(folder))
    assert done.returncode == 0 and document["overall"] == "ALIGNED", kept
    assert len(kept) == 3
    wrong = {new for _, new in FAULTS[request.node.callspec.params["port"]]}
    assert all(any(new in edit["old"] for edit in kept) for new in wrong)
    mended = (folder / "paddle_model.py").read_text()
    assert not any(new in mended for new in wrong) and all(new in planted for new in wrong)
    assert {edit["file"] for edit in kept} == {str(folder / "paddle_model.py")}


def without_findings(document: dict) -> dict:
    """What a check tells a loop that is to fail: nothing of what it found."""
    return document | {"findings": []}


def without_sources(document: dict) -> dict:
    """The findings, without an edit and without a line of source."""
    document = copy.deepcopy(document)
    for finding in document["findings"]:
        finding["edits"] = []
        for side in filter(None, (finding["torch"], finding["paddle"])):
            side["lines"] = []
    return document


@pytest.mark.slow
@pytest.mark.parametrize("port", ["layers"], indirect=True)
@pytest.mark.parametrize("blinded", [without_findings, without_sources])
def test_a_loop_that_is_told_nothing_mends_nothing(checkout, port, blinded):
    folder, check = port
    planted = (folder / "paddle_model.py").read_text()
    assert mend(lambda: blinded(check())) == []
    assert (folder / "paddle_model.py").read_text() == planted
    done, document = checkout.rows(1, "--model", str(folder))
    assert done.returncode == 1 and len(document["findings"]) == 3
