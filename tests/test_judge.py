"""Whole logs: cases apart from each other, what noise moves, and what a constant carries."""

import json

import numpy as np
import pytest

from common.logs.sidecar import Sidecar, write_sidecar
from common.logs.writer import LogWriter
from common.verdict.judge import judge_logs

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((4, 6))


def pair(values, change=0.0, noise=6e-8):
    """ref32, cand32, ref64, cand64 of one tensor; the candidate's is `change` off, relatively."""

    def rounded(values, size, dtype):
        return (values * (1 + size * RNG.standard_normal(np.shape(values)))).astype(dtype)

    other = values * (1 + change)
    return (
        rounded(values, noise, np.float32),
        rounded(other, noise, np.float32),
        rounded(values, 1e-16, np.float64),
        rounded(other, 1e-16, np.float64),
    )


class Logs:
    """Logs of a step, written row by row, each with a single-step value."""

    def __init__(self, folder):
        self.folder = folder
        self.rows = {}
        self.entries = {}

    def add(self, key, four, local=None):
        """One tensor; `local` is the candidate's on the reference's input (default: right)."""
        self.rows[key] = (*four, four[2] if local is None else local)

    def judge(self):
        names = ("ref32", "cand32", "ref64", "cand64", "local64")
        paths = {}
        for i, name in enumerate(names):
            paths[name] = self.folder / f"{name}.npy"
            with LogWriter(paths[name]) as writer:
                for key, arrays in self.rows.items():
                    writer.add(key, np.asarray(arrays[i]))
            write_sidecar(paths[name], Sidecar(**self.entries))
        first = [paths.pop(name) for name in names[:4]]
        judgement = judge_logs(*first, **paths)
        json.dumps(judgement.as_json(), allow_nan=False)
        return {row.key: row for row in judgement.rows}


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)


def test_a_case_knows_nothing_of_another(logs):
    """A constant in one case lets nothing of another pass as carried."""
    logs.entries = {"batches": {"a/": 4, "b/": 4}}
    logs.add("a/x", pair(VALUES, 1e-8), VALUES * (1 + 1e-8))
    logs.add("a/y", pair(VALUES, 1e-5))
    logs.add("b/y", pair(VALUES, 1e-5))
    rows = logs.judge()
    assert [rows[key].verdict for key in rows] == ["CONSTANT", "CARRIED", "DIVERGED"]
    assert rows["b/y"].origin and not rows["a/y"].origin


def test_a_second_nan_is_an_origin_of_its_own(logs):
    bad = [array.copy() for array in pair(VALUES)]
    bad[1][0, 0] = bad[3][0, 0] = np.nan
    logs.add("x", bad, bad[3])
    logs.add("carried", bad)
    logs.add("again", bad, bad[3])
    rows = logs.judge()
    assert [rows[key].verdict for key in rows] == ["INVALID", "CARRIED", "INVALID"]
    assert rows["again"].origin


def test_steps_of_a_model_with_a_constant_carry_what_it_makes(logs):
    """As far off as at the first weights, they are carried; farther, they are wrong."""
    for change, verdict in ((1e-6, "CARRIED"), (1e-3, "DIVERGED")):
        off = VALUES * (1 + change)
        logs.rows.clear()
        logs.add("x", pair(VALUES, 1e-8), VALUES * (1 + 1e-8))
        logs.add("grad/a", pair(VALUES, 5e-7))
        logs.add("adam/003/grad/a", pair(VALUES, change), off)
        row = logs.judge()["adam/003/grad/a"]
        assert row.verdict == verdict and row.origin == (verdict == "DIVERGED"), change


def test_steps_of_a_wrong_model_are_no_origins(logs):
    logs.add("x", pair(VALUES, 1e-3), VALUES * (1 + 1e-3))
    logs.add("adam/003/loss", pair(VALUES[0], 1e-3), VALUES[0] * (1 + 1e-3))
    rows = logs.judge()
    assert rows["x"].origin and not rows["adam/003/loss"].origin
    assert rows["adam/003/loss"].verdict == "DIVERGED"


def steps(logs, moved, drift):
    """A parameter whose first three gradients are zero in exact arithmetic, after an Adam step."""
    gradient = RNG.standard_normal(6)
    gradient[:3] = 0.0
    noise = 1e-7 * RNG.standard_normal((2, 6))
    tiny = 1e-13 * RNG.standard_normal((2, 6))
    four = [(gradient + noise[0]).astype("f4"), (gradient + noise[1]).astype("f4")]
    logs.add("grad/bias", [*four, gradient + tiny[0], gradient + tiny[1]])
    weight = np.ones(6)
    arrays = [array.copy() for array in pair(weight, noise=1e-8)]
    arrays[0][:3] += (moved * np.array([1, -1, 1])).astype("f4")
    arrays[1][:3] += (moved * np.array([-1, -1, 1])).astype("f4")
    arrays[3][:3] += drift
    logs.add("grad/other", pair(VALUES))
    logs.add("adam/000/weight/bias", arrays, arrays[3])
    return logs.judge()["adam/000/weight/bias"]


def test_weights_that_noise_moves(logs):
    """Adam makes a full step of a zero gradient's noise: sides part, and nothing hangs on it."""
    row = steps(logs, moved=1e-3, drift=5e-6)
    assert row.verdict in ("IDENTICAL", "ROUNDING"), row
    assert "3 values moved by the noise of a zero gradient" in row.note
    assert row.excuse.startswith("zero gradient")


@pytest.mark.parametrize(("moved", "drift"), [(0.0, 5e-6), (1e-3, 0.1)])
def test_weights_that_more_than_noise_moves(logs, moved, drift):
    """Nothing moves them in float32, or they move farther than it does."""
    assert steps(logs, moved, drift).verdict == "DIVERGED"


def test_values_that_nothing_moves_are_not_excused_beside_noise(logs):
    """Their gradient is 0 in float32 too: a decay that only one side has would hide there."""
    gradient = RNG.standard_normal(6)
    gradient[:3] = 0.0
    noise = 1e-7 * RNG.standard_normal((4, 6))
    noise[:, :2] = 0.0
    noise[2:] *= 1e-6
    found = [gradient + noise[i] for i in range(4)]
    logs.add("grad/bias", [found[0].astype("f4"), found[1].astype("f4"), found[2], found[3]])
    arrays = [array.copy() for array in pair(np.ones(6), noise=1e-8)]
    arrays[0][2] += np.float32(1e-3)
    arrays[3][0] += 1e-4
    logs.add("grad/other", pair(VALUES))
    logs.add("adam/000/weight/bias", arrays, arrays[3])
    row = logs.judge()["adam/000/weight/bias"]
    assert row.verdict == "DIVERGED" and row.worst_index == (0,)


def layer_norm(logs, spread, change):
    logs.entries = {"classes": {"norm": "LayerNorm", "norm:in/0": "LayerNorm"}}
    logs.add("norm:in/0", pair(spread * VALUES))
    logs.add("norm", pair(VALUES, change))
    return logs.judge()["norm"]


@pytest.mark.parametrize(
    ("spread", "change", "verdict"),
    [
        (1e-4, 1.3e-8, "CONSTANT"),  # epsilon is all of it: what float32 makes of it
        (10.0, 5e-9, "DIVERGED"),  # 1e-6 for 1e-12 on a variance of 100
        (1e-4, 2e-7, "DIVERGED"),
    ],
)
def test_what_an_epsilon_in_float32_explains(logs, spread, change, verdict):
    row = layer_norm(logs, spread, change)
    assert row.verdict == verdict
    assert (verdict != "CONSTANT") or "LayerNorm's epsilon" in row.note


@pytest.mark.parametrize(("momentum", "verdict"), [(0.99, "CONSTANT"), (0.9, "DIVERGED")])
def test_running_statistics(logs, momentum, verdict):
    """0.99 in float32 is CONSTANT; another momentum, 0.9 for 0.99, is not."""
    weight = 1 - np.float64(np.float32(momentum))
    right = 0.01 * VALUES
    logs.add("norm:running_mean", pair(right, weight / 0.01 - 1), VALUES * weight)
    row = logs.judge()["norm:running_mean"]
    assert row.verdict == verdict
    assert verdict == "DIVERGED" or "BatchNorm's momentum in float32" in row.note


@pytest.mark.parametrize(("spread", "told"), [(100.0, True), (10.0, False)])
def test_a_loss_beyond_paddles_limit_names_its_cause(logs, spread, told):
    logs.add("logits", pair(np.array([[0.0, spread], [1.0, 2.0]])))
    logs.add("loss", pair(np.float64(3.0), 0.1), np.float64(3.3))
    row = logs.judge()["loss"]
    assert row.verdict == "DIVERGED" and ("more than 64 below" in row.note) == told


def choice(logs, key, scores, shape_of_candidate=None):
    """A model's own argmax on both sides."""
    index = scores.argmax(-1)
    top = np.sort(scores, axis=-1)
    margin = top[..., -1] - top[..., -2]
    for name, values in ((f"{key}:scores", scores), (f"{key}:margin", margin), (key, index)):
        logs.rows[name] = [np.asarray(values)] * 5
    logs.entries = {
        "choices": {key: {"scores": f"{key}:scores", "margin": f"{key}:margin"}},
        "classes": dict.fromkeys((key, f"{key}:scores", f"{key}:margin"), "own choice"),
    }


def test_choices_of_another_shape_are_not_one_choice(logs, tmp_path):
    """Two calls of one name: only a note says that they were not compared."""
    choice(logs, "topk", VALUES)
    logs.add("out", pair(VALUES))
    for key in ("topk", "topk:scores", "topk:margin"):
        five = list(logs.rows[key])
        for i in (1, 3, 4):
            five[i] = five[i][:2]
        logs.rows[key] = five
    rows = logs.judge()
    assert list(rows) == ["out"]
