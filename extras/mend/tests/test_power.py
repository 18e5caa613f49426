"""Mistakes are planted into a right port: those that its check does not see are named."""

import json

import numpy as np
import pytest
from builders import twincheck, write_pair

from twincheck.common.pair.pairs import PERTURBED, Case, load_pair
from twincheck.extras.mend.edits import Source
from twincheck.extras.mend.inputs import changes, with_cases
from twincheck.extras.mend.power import mistakes

CASE = """import numpy as np

CONFIGS = {"default": {}}


def make_inputs(config, seed):
    rng = np.random.default_rng(seed)
    return {"ids": rng.choice([1, 2, 5, 6], (3, 6)), "x": rng.standard_normal((3, 4))}
"""
TORCH = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4, padding_idx=0)
        self.head = nn.Linear(4, 2)

    def forward(self, ids, x):
        kept = (ids != 3).to(x.dtype)
        return self.head((self.words(ids) * kept.unsqueeze(-1)).sum(1) * x)


def build(config):
    return Net()


def loss(outputs, inputs):
    return outputs.square().sum()
"""
PORT = (
    TORCH.replace("torch", "paddle")
    .replace("nn.Module", "nn.Layer")
    .replace("kept = (ids != 3).to(x.dtype)", "kept = (ids != 3).astype(x.dtype)")
)


def measured(pair, *words):
    """Run the command; return its text and the JSON that it leaves."""
    said = twincheck("power", pair, "--seconds", "45", *words)
    return said, json.loads((pair / "log" / "power" / "power.json").read_text())


@pytest.mark.slow
def test_what_the_inputs_cannot_show_is_named_and_written_inputs_show_it(tmp_path):
    pair = write_pair(tmp_path / "pair", CASE, TORCH, PORT)
    before = {path.name: path.read_bytes() for path in pair.glob("*.py")}
    said, told = measured(pair)
    left_out = "`nn.Embedding(9, 4, padding_idx=0)` made `nn.Embedding(9, 4)`"
    assert f"{left_out}\n    would be seen with inputs['ids'][..., -2:] = 0\n" in said
    assert "`ids != 3` made `ids <= 3`" not in said, "2 is among the inputs"
    assert any(one["old"] == "3" and one["new"] == "4" for one in told["unseen"])
    assert told["planted"] > 30
    decided = told["seen"] + told["same"] + len(told["unseen"])
    assert decided + told["undecided"] == told["planted"]
    assert told["seen"] > told["planted"] / 2 and not told["itself"]
    assert before == {path.name: path.read_bytes() for path in pair.glob("*.py")}
    said, _ = measured(pair, "--write")
    assert "case.py.orig" in said
    assert (pair / "case.py").read_bytes().startswith(before["case.py"].rstrip())
    twincheck("check", pair)
    said, told = measured(pair)
    assert left_out not in said and not any(one["new"] == "4" for one in told["unseen"])


@pytest.mark.slow
def test_a_port_that_inputs_alone_let_pass_is_found_wrong(tmp_path):
    wrong = PORT.replace("ids != 3", "ids != 4")
    pair = write_pair(tmp_path / "pair", CASE, TORCH, wrong)
    twincheck("check", pair)
    said, told = measured(pair, "--quick", "--write")
    assert "pair itself is red with inputs['ids'][..., -2:] = 4" in said
    assert told["planted"] <= 40
    twincheck("check", pair, status=1)
    pair = write_pair(tmp_path / "red", CASE, TORCH, PORT.replace(".sum(1)", ".mean(1)"))
    assert "red is red in step 1: mend it first" in twincheck("power", pair, status=2)


def test_what_leaves_right_code_as_it_is_is_no_mistake():
    text = (
        "class Net:\n    def __init__(self):\n        self.a = 1\n        self.b = 2\n"
        "    def forward(self, x, hide):\n        y = self.f(x, hide)\n        return y - 1\n"
    )
    source = Source(text.encode())
    made = {one.applied(source.text).decode() for one in mistakes(source, set(range(9)))}
    assert text.replace("y - 1", "y + 1") in made
    assert text.replace("    def forward", "    @paddle.no_grad()\n    def forward") in made
    for line in ("self.f(x, hide=hide)", "return self.f(x, hide) - 1", "self.a = 1\n    @"):
        assert not any(line in one for one in made)
    assert not any("self.b = 2\n        self.a = 1" in one for one in made)


def test_changed_inputs_stay_within_their_kinds_and_become_cases(tmp_path):
    text = CASE.replace('"x":', '"mask": rng.integers(0, 2, (3, 6)), "share": rng.random(3), "x":')
    pair = load_pair(str(write_pair(tmp_path / "pair", text, TORCH, PORT)))
    case = Case(PERTURBED, {}, weights=PERTURBED)
    some = list(changes(pair, case, 0, [Source(PORT.encode())]))
    assert len({one.name for one in some}) == len(some)
    for one in some:
        written = with_cases(text, pair, "default", case, [one])
        names = {}
        exec(written, names)
        row = names["CASES"]["default"][one.name]
        assert row["weights"] == PERTURBED
        inputs, own = names["make_inputs"]({}, 3, **row["inputs"]), pair.make_inputs(case, 3)
        same = [name for name in own if np.array_equal(inputs[name], own[name])]
        assert all(f"'{name}'" in "".join(one.lines) for name in own if name not in same)
        ids, mask = inputs["ids"], inputs["mask"]
        assert 0 <= ids.min() and ids.max() <= 6 and set(mask.flat) <= {0, 1}
        assert 0 <= inputs["share"].min() and inputs["share"].max() <= 1
    again = with_cases(written, pair, "default", case, some[:1])
    exec(again, names)
    assert names["make_inputs"]({}, 3).keys() == own.keys()
