"""Buffers that a model's own code makes: torch may keep what the port computes."""

import numpy as np
import pytest
from builders import ended, judged, translated

PAIR = translated(
    "rotary",
    ("def __init__(self, width):", "def __init__(self, width, kept, base):"),
    ("Rotary(width)\n", "Rotary(width, kept, base)\n"),
    ("(10000.0 **", "(base **"),
    ("2).float()", "2).astype(paddle.get_default_dtype())"),
    ('"inv_freq", inv_freq)', '"inv_freq", inv_freq, persistable=kept)'),
    (".unsqueeze(1) *", ".unsqueeze(1).astype(x.dtype) *"),
    ("paddle.randn(width)", "paddle.randn([width])"),
    ("outputs.transpose(1, 2)", "outputs"),
)
KEPT = {"layers.0.rotary.inv_freq", "layers.1.rotary.inv_freq"}  # one tensor


def check(checkout, step, *options):
    return judged(checkout, step, PAIR, *options)


def arrays(checkout, kind):
    folder = checkout.logs(1, "rotary") / kind
    return {p.stem: dict(np.load(p)) for p in folder.glob("*.npz")}


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, 4])
@pytest.mark.parametrize("preset", ["default", "kept"])
def test_a_port_may_compute_or_carry_what_torch_keeps(checkout, step, preset):
    """torch's float32 frequencies are off float64's by 1e-8: no float64 run has them."""
    done, rows = ended(0, check(checkout, step, "--preset", preset))
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


@pytest.mark.slow
def test_a_checkpoint_s_buffers_are_what_it_says(checkout, tmp_path):
    """A buffer that another program has made or trained is not what the code here makes."""
    check(checkout, 1, "--preset", "kept")
    state = arrays(checkout, "weights")["main"]
    state |= {name: state[name] * np.float32(1.5) for name in KEPT}
    path = tmp_path / "trained.npz"
    np.savez(path, **state)
    done, _ = ended(0, check(checkout, 1, "--preset", "kept", "--weights", str(path)))
    assert not arrays(checkout, "constants")
