"""What a run is fed: the reference's values, where they mean the same on the other side."""

import numpy as np
import pytest

from twincheck.common.logs.reference import TeacherValues

RNG = np.random.default_rng(0)
VALUE = RNG.standard_normal((4, 4, 6))
TURNED = VALUE.transpose(1, 0, 2)
PADDING = np.arange(12) % 5 > 2
ROWS = VALUE.transpose(1, 0, 2).reshape(16, 6)  # time first, where torch has the batch first


def fed(value, own, **others):
    """Return what is fed at `m:in/0`, None if left out.  others: torch's and Paddle's of `m`."""
    torch, paddle = {"m:in/0": value}, {"m:in/0": own}
    if others:
        torch["m"], paddle["m"] = others["made"]
    values = TeacherValues(torch, paddle, torch.keys())
    given = values.get("m:in/0")
    assert values.left_out == ({"m:in/0"} if given is None else set())
    return given


@pytest.mark.parametrize("off", [0.0, 1e-9, 0.1, 5.0])
def test_what_is_off_is_put_right(off):
    """However far off it is: nothing says that it means something else."""
    assert fed(VALUE, VALUE + off) is VALUE


@pytest.mark.parametrize(
    ("value", "own"),
    [
        (PADDING.astype(np.int64), (~PADDING).astype(np.float64)),
        (PADDING, ~PADDING),
        (PADDING, np.where(PADDING, -np.inf, 0.0)),
        (-1e9 * PADDING, np.where(PADDING, -np.inf, 0.0)),
        (VALUE.reshape(16, 6), ROWS),
        (VALUE, VALUE[:2]),
    ],
    ids=["padding and seen", "the other way", "and added", "another number", "order", "shape"],
)
def test_what_means_something_else_is_left_out(value, own):
    assert fed(value, own) is None


def test_a_mask_that_is_wrong_in_places_is_put_right():
    other = PADDING.copy()
    other[3] = True
    assert fed(PADDING, other) is PADDING
    assert fed(PADDING, PADDING.astype(np.int64)) is PADDING, "booleans may be logged as integers"


def test_another_arrangement_is_undone_where_what_comes_of_it_is_alike():
    """Channels last where the sizes are alike; and what is off in them is put right."""
    made = VALUE[..., :2], TURNED[..., :2]
    assert np.array_equal(fed(VALUE, TURNED, made=made), TURNED)
    other = np.moveaxis(VALUE, 2, 1)
    assert np.array_equal(fed(VALUE, 1.1 * other), other)


def test_a_wrong_order_of_axes_is_no_arrangement():
    """The module's output of it is off, so that it is fed what torch's was given."""
    made = VALUE[..., :2], VALUE[..., 3:5]
    assert fed(VALUE, TURNED, made=made) is VALUE


def test_what_decides_is_fed_as_it_is():
    assert TeacherValues({"logits": VALUE}, {"logits": TURNED}, ())["logits"] is VALUE
