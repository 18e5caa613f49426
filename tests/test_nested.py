"""Inputs that nest: under flat names they are carried, as they were the model gets them."""

import numpy as np
import pytest
from builders import Checked, a_case, a_net, arrays_of, write_pair
from checkout import change

from twincheck.common.pair.nested import flat, nested

X, Y = np.arange(3), np.ones((2, 2))


def same(a, b):
    """Equal, arrays by their values."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b)


@pytest.mark.parametrize(
    "inputs, names",
    [
        ({"x": X}, "x"),
        ({"x": [X, Y]}, "x/0 x/1"),
        ({"y": {"b": X, "a": [Y, {"c": X}]}, "x": Y}, "y/b y/a/0 y/a/1/c x"),
        ({"x": [[X], [Y, X]]}, "x/0/0 x/1/0 x/1/1"),
        ({"x": [X] * 12}, " ".join(f"x/{i}" for i in range(12))),
    ],
)
def test_what_nests_comes_back(inputs, names):
    found = flat(inputs)
    assert " ".join(found) == names
    assert same(inputs, nested(found))


@pytest.mark.parametrize(
    "inputs, sentence",
    [
        ({"a/b": X}, "'a/b' of the inputs: a name is text without '/'"),
        ({"x": {"a/b": X}}, "'a/b' of input x: a name is text without '/'"),
        ({"x": {0: X}}, "0 of input x: a name is text"),
        ({"x": {"0": X}}, "input x: a dict's keys are names, not numbers: give a list"),
        ({"x": {}}, "input x: it is empty: leave it out"),
    ],
)
def test_what_would_not_come_back_is_refused(inputs, sentence):
    with pytest.raises(ValueError, match=sentence):
        flat(inputs)


CASE = a_case(
    """"x": rng.standard_normal([2, 3]),
        "pair": [rng.standard_normal([2, 3]), rng.standard_normal([2, 3])],
        "more": {"scale": rng.standard_normal([2, 1]), "rows": [np.array([1, 0])]},"""
)
TORCH = a_net(
    "self.head = nn.Linear(3, 1)",
    """
    first, second = pair
    mixed = x + (first - 2.0 * second) * more["scale"]
    return {"logits": self.head(mixed[more["rows"][0]])}
    """,
    '(outputs["logits"] * inputs["more"]["scale"]).mean() + inputs["pair"][0].mean()',
    takes="x, pair, more",
)


@pytest.mark.slow
def test_a_pair_s_forward_and_loss_get_what_its_case_gives(tmp_path):
    """Each part has a gradient; parts that one side takes the other way round turn it red."""
    folder = write_pair(tmp_path / "parts", CASE, TORCH)
    told = 4, folder, tmp_path, ("--case", "main")
    right = Checked(*told)
    assert right.status == 0, right.said
    keys = arrays_of(right.files.log("bp_align_all", "paddle"))
    found = {key.removeprefix("grad/inputs/") for key in keys if key.startswith("grad/inputs/")}
    assert found == {"x", "pair/0", "pair/1", "more/scale"}
    change(folder / "paddle_model.py", "first, second = pair", "second, first = pair")
    wrong = Checked(*told)
    assert (wrong.status, wrong.first) == (1, "head:in/0"), wrong.said
