"""Data parallelism: several processes with a part of a batch each, forked here and in test_readme
started by the frameworks' launchers, against one with all of it."""

import json
from contextlib import ExitStack

import pytest
from checkout import Checkout
from forked_group import in_place_of_launchers

from faults.worker import plant
from twincheck.common.pair.worker_process import _how_one_ended


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    made = Checkout(tmp_path_factory.mktemp("parallel"))
    made.forked = in_place_of_launchers(made.elsewhere, made.interpreter)
    return made


def run(checkout, *arguments):
    report = checkout.elsewhere / "parallel.json"
    report.unlink(missing_ok=True)
    options = [*arguments, *checkout.forked, "--json", str(report), "--no-report"]
    done = checkout.module("twincheck", "check-parallel", *options)
    return done, report


@pytest.mark.slow
def test_two_processes_have_one_process_gradients_on_both_sides(checkout):
    done, path = run(checkout, "--model", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(path.read_text())["rows"]
    for model in ("reformer", "fastformer", "fast_transformer"):
        for side in ("torch", "paddle"):
            start = f"{side}/0/grad/"
            found = [r for r in rows if r["model"] == model and r["key"].startswith(start)]
            assert len(found) > 20, (model, side)
            for row in found:
                assert row["verdict"] in ("IDENTICAL", "ROUNDING"), row["key"]
                assert row["gap"] is None or row["gap"] <= 1e-12 * max(row["scale"], 1e-3)


# Each process keeps its own gradients.
OWN_GRADIENTS = (
    "step4_backward/paddle/parallel.py",
    "hybrid.fused_allreduce_gradients(list(replica.parameters()), None)",
    "paddle.distributed.barrier()",
)
# Every process reads the same samples, on the torch side.
SAME_SAMPLES = (
    "step4_backward/parallel.py",
    "first = step * whole + run.group.rank * rows",
    "first = step * whole",
)


@pytest.mark.slow
def test_what_data_parallelism_gets_wrong_shows(checkout):
    """Each side is judged against its own one process: a fault shows in its side's rows alone."""
    with ExitStack() as undone:
        for file, old, new in (OWN_GRADIENTS, SAME_SAMPLES):
            clean = checkout.path(file).read_text()
            assert clean.count(old) == 1
            undone.callback(plant(checkout.path(file), clean.replace(old, new), "torch"))
        done, path = run(checkout, "--model", "fastformer")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = json.loads(path.read_text())["rows"]
    bad = [row["key"] for row in rows if row["verdict"] in ("DIVERGED", "INVALID")]
    for start in ("paddle/0/grad", "paddle/spread", "torch/0/grad", "torch/0/loss"):
        assert any(key.startswith(start) for key in bad), (start, bad[:5])


def test_what_launchers_say_of_a_process_that_was_ended():
    torchrun = ["Failures:", "[1]:", "  rank      : 0 (local_rank: 0)"]
    torchrun += ["  exitcode  : -15 (pid: 9)"]
    torchrun += ["Root Cause (first observed failure):", "[0]:", "  rank      : 3 (local_rank: 1)"]
    torchrun += ["  exitcode  : -9 (pid: 10)  (SIGKILL)"]
    paddle = ["LAUNCH INFO 2026 rank: -1", "LAUNCH ERROR Container failed !!!"]
    paddle += ["Container rank 3 status failed cmd ['a'] code -9 log x"]
    paddle += ["LAUNCH INFO Exit code -15"]
    for told in (torchrun, paddle):
        assert _how_one_ended(told).startswith("process 3 was ended by SIGKILL")
    # Both ended before the launcher looked, and it names the one that had lost the other.
    missed = ["failed (exitcode: 2) local_rank: 0 (pid: 9) of binary", "Failures:"]
    missed += ["[1]:", "  rank      : 1 (local_rank: 1)", "  exitcode  : -9 (pid: 10)"]
    missed += ["Root Cause (first observed failure):", "[0]:", "  rank      : 0 (local_rank: 0)"]
    missed += ["  exitcode  : 70 (pid: 9)"]
    assert _how_one_ended(missed).startswith("process 1 was ended by SIGKILL")
    assert _how_one_ended(["MemoryError"]) == ""


def test_one_process_is_no_data_parallelism(checkout):
    done, _ = run(checkout, "--processes", "1")
    assert done.returncode == 2 and "not a number from 2" in done.stderr
