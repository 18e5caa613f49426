"""The tape, the session's names, conversion of weights, and the fake data."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common.errors import UserError
from common.session import Session
from common.setups import schedule
from common.tape import Tape
from common.layers import Owner, make_rename
from common.layout import Layout
from common.weights import check_state, load_state, made

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


LINEAR = Owner("Linear", "weight", (4, 4), True, "fc.weight")


def test_a_square_linear_is_transposed_and_an_embedding_is_not():
    torch_owners = {
        "fc.weight": LINEAR,
        "emb.weight": Owner("Embedding", "weight", (4, 4), True, "emb.weight"),
        "bn.running_mean": Owner("BatchNorm1d", "running_mean", (4,), False, "bn.running_mean"),
        "bn.num_batches_tracked": Owner("BatchNorm1d", "num_batches_tracked", (), False, "bn.n"),
    }
    paddle_owners = {
        "fc.weight": LINEAR,
        "emb.weight": Owner("Embedding", "weight", (4, 4), True, "emb.weight"),
        "bn._mean": Owner("BatchNorm1D", "_mean", (4,), True, "bn._mean"),
    }
    layout = Layout(torch_owners, paddle_owners)
    values = np.arange(16.0).reshape(4, 4)
    state = {"fc.weight": values, "emb.weight": values, "bn.running_mean": np.ones(4)}
    made = layout.to_paddle(state)
    assert np.array_equal(made["fc.weight"], values.T)
    assert np.array_equal(made["emb.weight"], values)
    assert np.array_equal(made["bn._mean"], np.ones(4))
    assert np.array_equal(layout.reference_values("fc.weight", values.T), values)
    rows = {row["paddle_key"]: row for row in layout.certificate()}
    assert rows["fc.weight"]["transposed"] and not rows["emb.weight"]["transposed"]


def test_leftovers_and_double_use_are_errors():
    with pytest.raises(UserError, match="only in the Paddle model: b.weight.*torch model: fc"):
        Layout({"fc.weight": LINEAR}, {"b.weight": LINEAR._replace(same_as="b.weight")})
    with pytest.raises(UserError, match="asked for twice: fc.weight"):
        Layout({"fc.weight": LINEAR}, {"fc.weight": LINEAR, "g.weight": LINEAR}, {"g": "fc"})
    wide = {"fc.weight": LINEAR._replace(shape=(4, 5))}
    with pytest.raises(UserError, match="transposed as a Linear's weight"):
        Layout(wide, {"fc.weight": LINEAR._replace(shape=(4, 5))})


def test_rename_takes_the_longest_prefix_of_whole_names():
    rename = make_rename({"a": "x", "a.b": "y"})
    assert [rename(n) for n in ("a.c", "a.b.c", "ab.c", "a", "a:in/0")] == [
        "x.c",
        "y.c",
        "ab.c",
        "x",
        "x:in/0",
    ]


def test_trained_like_weights_are_heavy_tailed_and_keep_ties():
    owners = {
        "fc.weight": Owner("Linear", "weight", (64, 64), True, "fc.weight"),
        "tied.weight": Owner("Linear", "weight", (64, 64), True, "fc.weight"),
    }
    state = dict.fromkeys(owners, np.full((64, 64), 0.02, np.float32))
    heavy = trained_like(state, owners, 0)
    rows = np.abs(heavy["fc.weight"]).max(axis=1)
    assert rows.max() > 3 * np.median(rows)
    assert np.array_equal(heavy["fc.weight"], heavy["tied.weight"])


def test_weights_files_are_checked(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, **{"fc.weight": np.zeros((4, 4))})
    check_state(path, load_state(path), {"fc.weight": LINEAR})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="not a readable"):
        load_state(path)


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
