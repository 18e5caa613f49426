"""Rows made by themselves, from their tensors, and settled again, are the rows as they were."""

from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from test_judge import VALUES, Logs, pair

from twincheck.common.verdict.comparisons import Memo
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.origins import sketch
from twincheck.extras.bundle.rows import Watched, differences, made_of, same_made

NAMES = ("ref32", "cand32", "ref64", "cand64", "teacher_forced", "exact")


def write(folder: Path) -> dict[str, Path]:
    """Logs with a wrong module, what it spoils, a constant, noise and gradients."""
    logs = Logs(folder)
    logs.entries = {
        "batches": {"a/": 4, "b/": 4},
        "inexact": {"b/x": {"selu": 3e-8}},
        "modules": {"a/m": 1, "a/m.n": 1, "a/m.o": 1, "a/m.p": 1, "b/x": 0},
    }
    off = VALUES * (1 + 1e-3 * np.arange(6))
    logs.add("a/m.n:in/0", pair(VALUES), None)
    wrong = list(pair(VALUES))
    wrong[1], wrong[3] = off.astype(np.float32), off
    logs.add("a/m.n", tuple(wrong), off, off)
    logs.add("a/m.o:in/0", tuple(wrong), off, off)
    logs.add("a/m.o", tuple(wrong))
    logs.add("a/m.p:in/0", tuple(wrong), off, off)
    logs.add("a/m", pair(VALUES, 1e-5))
    logs.add("b/x", pair(VALUES, 1e-8), VALUES * (1 + 1e-8))
    logs.add("b/y", pair(VALUES, 1e-8))
    for i in range(4):
        logs.add(f"a/grad/m.n.{i}", pair(VALUES * 10.0**-i, noise=6e-8 * 4**i))
    coarse = list(pair(VALUES))
    coarse[1] = pair(VALUES, noise=6e-6)[1]
    logs.add("b/coarse", tuple(coarse))
    logs.judge()
    return {name: folder / f"{name}.npy" for name in NAMES}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The logs, the rows of all together, and what was made of each."""
    paths, memo = write(tmp_path_factory.mktemp("logs")), Memo()
    rows = {row.key: row for row in judge_logs(**paths, memo=memo).rows}
    return paths, rows, memo


@contextmanager
def watched(paths, rows, memo):
    with ExitStack() as stack:
        shapes = {key: row.shape for key, row in rows.items()}
        yield Watched(stack, paths, shapes, memo.scales)


def test_what_is_made_of_a_tensor_depends_on_no_other_row(judged):
    paths, rows, memo = judged
    with watched(paths, rows, memo) as again:
        for key, made in reversed(made_of(memo).items()):
            alone, reads = again.make(key, made)
            assert reads.tensors
            assert all(same_made(made[name], alone[name]) for name in made)


def test_all_rows_come_out_the_same_from_what_was_made_of_each(judged):
    paths, rows, memo = judged
    verdicts = {row.verdict for row in rows.values()}
    assert {"ROUNDING", "DIVERGED", "CONSTANT", "CARRIED", "PRECISION"} <= verdicts
    with watched(paths, rows, memo) as again:
        settled = again.settle(made_of(memo))
        assert settled.keys() == rows.keys()
        for key, row in rows.items():
            assert differences(row.as_json(), settled[key].as_json()) == [], key


@pytest.mark.parametrize("name", ["fed", "exact", "sketch"])
def test_what_was_made_of_a_tensor_matters(judged, name):
    """Else nothing of it would have to be written down."""
    paths, rows, memo = judged
    made = {key: {n: v for n, v in m.items() if n != name} for key, m in made_of(memo).items()}
    with watched(paths, rows, memo) as again:
        settled = again.settle(made)
    assert any(differences(rows[key].as_json(), row.as_json()) for key, row in settled.items())


def test_what_is_made_of_nan_is_json_too():
    values = np.array([np.nan, 1.0, 2.0])
    assert sketch(values, values) == [] and len(sketch(values[1:], values[1:] + 1.0)) == 2
