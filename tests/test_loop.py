"""A port is mended from --json alone; a loop that is told nothing mends nothing.

The loop stands for the coding agent of docs/for-programs.md and has no judgement of its own: it
makes an edit that the document proposes, else Paddle's line becomes torch's, as the table of
spellings has it, the nearest to the named line first.  An edit stays where its finding is gone.
"""

from pathlib import Path

import pytest
from checkout import ROOT, Checkout

from tools.twins import translate

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
MOST = 20  # checks


def mend(check):
    """Edit until nothing is found, or nothing is left to try; returns the edits that stayed."""
    document, kept, tried = check(), [], []
    while len(tried) < MOST:
        asked = [(one, edit) for one in document["findings"] for edit in proposals(one)]
        finding, edit = next((each for each in asked if each[1] not in tried), (None, None))
        if edit is None:
            break
        tried.append(edit)
        path = Path(edit["file"])
        before = path.read_text()
        lines = before.split("\n")
        assert lines[edit["line"] - 1] == edit["old"]
        lines[edit["line"] - 1] = edit["new"]
        path.write_text("\n".join(lines))
        after = check()
        keys = [place["key"] for one in after["findings"] for place in (one, *one["further"])]
        if after["exit_code"] < 2 and finding["key"] not in keys:
            document = after
            kept.append(edit)
        else:
            path.write_text(before)
    return kept


def proposals(finding):
    """The document's edits of a finding; else torch's lines in the place of Paddle's."""
    torch, paddle = finding["torch"], finding["paddle"]
    if finding["edits"] or not (torch and paddle and torch["line"] and paddle["line"]):
        yield from finding["edits"]
        return
    reference = {line["number"] - torch["line"]: line["text"] for line in torch["lines"]}
    for line in sorted(paddle["lines"], key=lambda one: abs(one["number"] - paddle["line"])):
        new = translate(reference.get(line["number"] - paddle["line"], line["text"]))
        if new != line["text"]:
            place = {"file": paddle["file"], "line": line["number"]}
            yield place | {"old": line["text"], "new": new}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy for all loops."""
    return Checkout(tmp_path_factory.mktemp("loop"), pairs=(PAIR,))


@pytest.fixture
def port(checkout, request):
    """The Paddle side of a pair with three faults, and a function that checks it."""
    folder = checkout.path("port")
    folder.mkdir(exist_ok=True)
    for path in (ROOT / PAIR).glob("*.py"):
        (folder / path.name).write_text(path.read_text())
    for old, new in FAULTS[request.param]:
        checkout.replace("port/paddle_model.py", old, new)
    return folder / "paddle_model.py", lambda: checkout.rows(1, "--model", str(folder))[1]


@pytest.mark.slow
@pytest.mark.parametrize("port", FAULTS, indirect=True)
def test_a_loop_mends_three_faults_from_the_document_alone(port, request):
    file, check = port
    kept = mend(check)
    assert check()["overall"] == "ALIGNED" and len(kept) == 3, kept
    wrong = {new for _, new in FAULTS[request.node.callspec.params["port"]]}
    assert all(any(new in edit["old"] for edit in kept) for new in wrong)
    assert not any(new in file.read_text() for new in wrong)
    assert {edit["file"] for edit in kept} == {str(file)}
