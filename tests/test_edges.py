"""The case `edges`: what is put into a pair's own inputs, and that a mistake shows there alone."""

import numpy as np
import pytest
from builders import a_case, a_net, ended, judged, paddles, write_pair

from twincheck.common.sides.edges import FLOATS, LARGE, PADDING, QUIET, ROWS, varied

IDS = np.arange(24).reshape(3, 8) + 1
INPUTS = {
    "input_ids": IDS,
    "attention_mask": np.ones((3, 8), np.int64),
    "key_padding_mask": np.zeros((3, 8), bool),
    "token_type_ids": np.ones((3, 8), np.int64),
    "labels": np.ones((3, 8), np.int64),
    "x": np.where(np.arange(6) % 2, -1.0, 2.0).reshape(3, 2),
    "share": np.full((3, 2), 0.5),
    "keep": np.eye(3),
}


def test_padding_goes_to_both_ends_and_into_a_row_and_masks_say_so():
    found = varied(INPUTS, 0, (PADDING, ROWS))
    changed = {name for name, values in found.items() if not np.array_equal(values, INPUTS[name])}
    assert changed == {"input_ids", "attention_mask", "key_padding_mask"}
    assert found["input_ids"].tolist() == [[0, 0, 3, 4, 5, 6, 0, 0], [*range(9, 17)], [0] * 8]
    kept = found["attention_mask"]
    assert kept.tolist() == [[0, 0, 1, 1, 1, 1, 0, 0], [1] * 8, [1] + [0] * 7]
    assert (found["key_padding_mask"] == (kept == 0)).all()
    ends = varied(INPUTS, 0, (PADDING,))
    assert (ends["input_ids"][1:] == IDS[1:]).all() and (ends["input_ids"][0, :2] == 0).all()
    assert (varied(INPUTS, None, (PADDING, ROWS))["input_ids"] == IDS).all(), "it has no padding"
    assert (INPUTS["input_ids"] == IDS).all() and IDS.min() == 1, "what was given stays"


def test_floats_get_a_quiet_a_loud_and_an_empty_sample():
    found = varied(INPUTS, 0, (FLOATS, ROWS, LARGE))
    assert found["x"].tolist() == [[2 * QUIET, -QUIET], [0, 0], [20, -10]]
    assert found["share"].tolist() == [[0.5 * QUIET] * 2, [0, 0], [0.5, 0.5]], "it may be a share"
    assert (found["keep"] == np.eye(3)).all() and (found["input_ids"] == IDS).all()
    assert varied(INPUTS, 0, (FLOATS,))["x"][1:].tolist() == [[2, -1], [2, -1]]


CASE = a_case('"x": 1 + rng.random((3, 4)), "labels": rng.integers(0, 3, 3)')
MADE = "self.fc, self.bias = nn.Linear(4, 3), nn.Parameter(torch.zeros(3))"
FLOOR = "return self.fc(torch.maximum(x, x.amax(1, keepdim=True) / 9)) + self.bias"


@pytest.mark.slow
def test_a_floor_of_the_batch_shows_there_alone(checkout, tmp_path):
    net = a_net(MADE, FLOOR)
    pair = write_pair(
        tmp_path / "pair", CASE, net, paddles(net, ("x.amax(1, keepdim=True)", "x.max()"))
    )
    _, found = ended(1, judged(checkout, 1, pair))
    off = {key for key, row in found.items() if row["verdict"] == "DIVERGED"}
    assert off and all(key.startswith("edges/") for key in off)
    ended(0, judged(checkout, 1, write_pair(tmp_path / "right", CASE, net)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line, why",
    [
        ('assert x.min() > 0.5, "too quiet"', "too quiet)"),
        ("x = (x - 0.5).log()", "output is not finite"),
    ],
)
def test_what_the_reference_refuses_is_left_out_and_said(checkout, tmp_path, line, why):
    net = a_net(MADE, f"{line}\n{FLOOR}")
    done, found = ended(0, judged(checkout, 1, write_pair(tmp_path / "pair", CASE, net)))
    assert why in " ".join(done.stdout.split()), done.stdout
    assert not any(key.startswith("edges/") for key in found)
