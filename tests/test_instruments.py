"""The tape, the session's names, schedules, and the fake data."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common.pair.schedules import schedule
from common.pair.tape import Tape
from common.sides.session import Session

ROOT = Path(__file__).resolve().parent.parent


def test_tape_depends_on_seed_site_and_step_alone():
    tape = Tape(3)
    first = tape.keep_mask("a.dropout", 5, (100, 10), 0.2)
    tape.normal("elsewhere", 0, (7,))
    assert np.array_equal(first, Tape(3).keep_mask("a.dropout", 5, (100, 10), 0.2))
    for other in (Tape(4).keep_mask("a.dropout", 5, (100, 10), 0.2),):
        assert not np.array_equal(first, other)
    assert not np.array_equal(first, tape.keep_mask("b.dropout", 5, (100, 10), 0.2))
    assert not np.array_equal(first, tape.keep_mask("a.dropout", 6, (100, 10), 0.2))
    assert abs(first.mean() - 0.8) < 0.05
    assert sorted(tape.permutation("shuffle", 0, 50)) == list(range(50))


def test_tape_is_the_same_everywhere():
    # Known answers: another NumPy, or another machine, must draw these.
    assert Tape(0).permutation("shuffle", 0, 8).tolist() == [0, 7, 5, 1, 4, 6, 2, 3]
    values = [-0.9991479334004819, -0.6104785758050676, -1.059119091484091]
    assert Tape(0).normal("rotations", 0, (3,)).tolist() == values
    assert Tape(0).keep_mask("d", 1, (8,), 0.5).tolist() == [False] * 5 + [True] * 3


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
    script = ROOT / "fake_data" / "gen_fake_data.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
