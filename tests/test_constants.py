"""Buffers that a model's own code makes: torch may keep what the port computes."""

from pathlib import Path

import numpy as np
import pytest
from checkout import Checkout

PAIR = Path(__file__).parent / "pairs" / "rotary"
KEPT = {"layers.0.rotary.inv_freq", "layers.1.rotary.inv_freq"}  # one tensor


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    made = Checkout(tmp_path_factory.mktemp("constants"))
    made.replace("step4_backward/setups.py", "STEPS = 10", "STEPS = 1")
    return made


def check(checkout, step, *options):
    done, report = checkout.rows(step, "--model", str(PAIR), "--no-report", *options)
    return done, {row["key"]: row for row in (report or {}).get("rows", [])}


def arrays(checkout, kind):
    folder = checkout.logs(1, "rotary") / kind
    return {p.stem: dict(np.load(p)) for p in folder.glob("*.npz")}


@pytest.mark.parametrize("step", [1, 3, 4])
@pytest.mark.parametrize("preset", ["default", "kept"])
def test_a_port_may_compute_or_carry_what_torch_keeps(checkout, step, preset):
    """torch's float32 frequencies are off float64's by 1e-8: no float64 run has them."""
    done, rows = check(checkout, step, "--preset", preset)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["verdict"] for row in rows.values()} <= {"IDENTICAL", "ROUNDING"}
    if step == 1:
        found, stored = arrays(checkout, "constants"), arrays(checkout, "weights")
        assert found.keys() == stored.keys() == {"main", "perturbed"}
        for start, constants in found.items():
            assert constants.keys() == KEPT, "what is drawn is another with another seed"
            for name, values in constants.items():
                assert values.dtype == np.float64 and stored[start][name].dtype == np.float32
                assert 0 < np.abs(values - stored[start][name]).max() < 1e-7


def test_wrong_frequencies_stay_red(checkout):
    done, rows = check(checkout, 1, "--preset", "wrong")
    assert done.returncode == 1 and rows["layers.0.rotary"]["verdict"] == "DIVERGED"


def test_a_checkpoint_s_buffers_are_what_it_says(checkout, tmp_path):
    """What somebody else's program has made or trained is not what the code here makes."""
    check(checkout, 1, "--preset", "kept")
    state = arrays(checkout, "weights")["main"]
    state |= {name: state[name] * np.float32(1.5) for name in KEPT}
    path = tmp_path / "trained.npz"
    np.savez(path, **state)
    done, _ = check(checkout, 1, "--preset", "kept", "--weights", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not arrays(checkout, "constants")
