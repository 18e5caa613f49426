"""A row made by itself, from its tensors and what was known before it, is the row as it was."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_judge import VALUES, Logs, pair

from common.verdict.judge import judge_logs
from common.verdict.replay import Replay, Watch, differences

NAMES = ("ref32", "cand32", "ref64", "cand64", "local64", "exact64")


def write(folder: Path) -> dict[str, Path]:
    """Logs with a wrong module, what it spoils, a constant, noise and gradients."""
    logs = Logs(folder)
    logs.entries = {
        "batches": {"a/": 4, "b/": 4},
        "inexact": {"b/x": {"selu": 3e-8}},
        "modules": {"a/m": 1, "a/m.n": 1, "a/m.o": 1, "b/x": 0},
    }
    off = VALUES * (1 + 1e-3 * np.arange(6))
    logs.add("a/m.n:in/0", pair(VALUES), None)
    wrong = list(pair(VALUES))
    wrong[1], wrong[3] = off.astype(np.float32), off
    logs.add("a/m.n", tuple(wrong), off, off)
    logs.add("a/m.o:in/0", tuple(wrong), off, off)
    logs.add("a/m.o", tuple(wrong))
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
    paths = write(tmp_path_factory.mktemp("logs"))
    watch = Watch()
    judge_logs(**paths, observer=watch)
    return paths, watch.seen


def again(paths, seen, **changed):
    """The fields in which the row by itself is another."""
    scales = {one.group: one.scale for one in seen if one.scale is not None}
    found = {}
    with Replay(paths, scales) as replay:
        for one in reversed(seen):  # no row may need that another was made before it
            row, reads = replay.row(one.key, json.loads(one.known) | changed)
            assert reads.tensors
            one.row.inside = row.inside
            wrong = differences(one.row.as_json(), row.as_json())
            if wrong:
                found[one.key] = wrong
    return found


def test_every_row_comes_out_the_same(judged):
    paths, seen = judged
    verdicts = {one.row.verdict for one in seen}
    assert {"ROUNDING", "DIVERGED", "CONSTANT", "CARRIED", "PRECISION"} <= verdicts
    assert again(paths, seen) == {}


def test_what_was_known_before_a_row_matters(judged):
    """Else nothing of it would have to be recorded."""
    paths, seen = judged
    assert "a/m" in again(paths, seen, off=False)


def test_a_number_within_rounding_is_the_same_and_no_other():
    row = {"gap": 1.0, "verdict": "ROUNDING", "beyond": 1, "sample": None}
    assert differences(row, row | {"gap": 1.0 + 1e-9}) == []
    assert differences(row, row | {"gap": 1.0 + 1e-5}) == ["gap"]
    assert differences(row, row | {"beyond": 2}) == ["beyond"]
    assert differences(row, row | {"sample": 0}) == ["sample"]
    assert differences(row | {"gap": None}, row) == ["gap"]
    assert differences(row | {"beyond": True}, row) == ["beyond"]
