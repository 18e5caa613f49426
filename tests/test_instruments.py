"""The tape, the session's names, schedules, and the fake data."""

import numpy as np
import pytest
from builders import python

from twincheck.common.pair.schedules import schedule
from twincheck.common.pair.tape import Tape
from twincheck.common.sides.session import Session


def test_tape_is_the_same_everywhere():
    # Known answers: another NumPy, or another machine, must draw these.
    assert Tape(0).permutation("shuffle", 0, 8).tolist() == [0, 7, 5, 1, 4, 6, 2, 3]
    values = [-0.9991479334004819, -0.6104785758050676, -1.059119091484091]
    assert Tape(0).normal("rotations", 0, (3,)).tolist() == values
    assert Tape(0).keep_mask("d", 1, (8,), 0.5).tolist() == [False] * 5 + [True] * 3


@pytest.mark.parametrize("p", [0.0, 1e-9, 2**-24, 0.1, 0.5, 1 - 2**-24, 1.0, 1.5, -0.5])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (4, 1, 9)])
def test_a_mask_is_what_the_generator_s_uniform_numbers_say(shape, p):
    drawn = Tape(3).generator("x", 4).random(shape, dtype=np.float32)
    mask = Tape(3).keep_mask("x", 4, shape, p)
    assert np.array_equal(mask, drawn >= np.float32(p)) and np.shape(mask) == shape


def test_a_recomputation_is_given_the_mask_that_was_drawn():
    session = Session(0)

    def mask(recompute):
        with session.scope(0, recompute=recompute):
            return session.keep_mask("layer.dropout", (4, 5), 0.5)[0]

    first = mask(False)
    assert np.array_equal(mask(True), first) and np.array_equal(mask(True), first)
    session.begin(1)
    assert not np.array_equal(mask(False), first) and not np.array_equal(mask(True), first)
    session.begin(0)
    assert np.array_equal(mask(True), first), "nothing of another step"


def test_names_count_calls_and_a_recomputation_repeats_them():
    session = Session(0)
    assert [session.label("x"), session.label("x"), session.label("y")] == ["x", "x#2", "y"]
    call = session.next_call("layer")
    with session.scope(call):
        first = [session.label("layer.x"), session.label("layer.x")]
    with session.scope(call, recompute=True):
        assert session.recomputing
        assert [session.label("layer.x"), session.label("layer.x")] == first
    second = session.next_call("layer")
    with session.scope(second):
        assert session.label("layer.x") not in first
    session.begin(1)
    assert session.label("x") == "x" and session.next_call("layer") == 0


def test_schedules():
    linear = schedule("linear", 4, 12)
    assert [linear(step) for step in (0, 3, 4, 8, 12)] == [0.25, 1.0, 1.0, 0.5, 0.0]
    cosine = schedule("cosine", 0, 10)
    assert cosine(0) == 1.0 and abs(cosine(5) - 0.5) < 1e-12
    with pytest.raises(ValueError, match="allowed: constant, linear, cosine"):
        schedule("stairs", 0, 1)


def test_fake_data_is_what_is_generated():
    python("-m", "fake_data.gen_fake_data", "--check")
