"""Data parallelism: several processes with a part of a batch each against one with all of it."""

import json

import numpy as np
import pytest
from checkout import Checkout

from common.pair.tape import Tape
from step4_backward.part_of_tape import PartOfTape

CHECK = "step4_backward/check_parallel.py"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("parallel"))


def run(checkout, *arguments):
    report = checkout.elsewhere / "parallel.json"
    report.unlink(missing_ok=True)
    options = [*arguments, "--json", str(report), "--no-report"]
    done = checkout.python(str(checkout.path(CHECK)), *options)
    return done, report


def test_two_processes_have_one_process_gradients_on_both_sides(checkout):
    done, path = run(checkout, "--model", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(path.read_text())["rows"]
    for model in ("reformer", "fastformer", "fast_transformer"):
        for side in ("torch", "paddle"):
            found = [
                row
                for row in rows
                if row["model"] == model and row["key"].startswith(f"{side}/0/grad/")
            ]
            assert len(found) > 20, (model, side)
            for row in found:
                assert row["verdict"] in ("IDENTICAL", "ROUNDING"), row["key"]
                assert row["gap"] is None or row["gap"] <= 1e-12 * max(row["scale"], 1e-3)


@pytest.mark.parametrize(
    "file, old, new, red",
    [
        # Each process keeps its own gradients.
        (
            "step4_backward/paddle/process_group.py",
            "hybrid.fused_allreduce_gradients(list(replica.parameters()), None)",
            "dist.barrier()",
            {"paddle/0/grad", "paddle/spread"},
        ),
        # Every process drops the same, the first rows' dropout.
        (
            "step4_backward/part_of_tape.py",
            "return whole[self._rank * self._rows :][: self._rows]",
            "return whole[: self._rows]",
            {"torch/0/grad", "paddle/0/grad"},
        ),
        # Every process reads the same samples.
        (
            "step4_backward/torch/parallel.py",
            "first = step * whole + RANK * rows",
            "first = step * whole",
            {"torch/0/grad", "torch/0/loss"},
        ),
    ],
)
def test_what_data_parallelism_gets_wrong_shows(checkout, file, old, new, red):
    original = checkout.path(file).read_text()
    checkout.replace(file, old, new)
    try:
        done, path = run(checkout, "--model", "fastformer")
    finally:
        checkout.path(file).write_text(original)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = json.loads(path.read_text())["rows"]
    bad = [row["key"] for row in rows if row["verdict"] in ("DIVERGED", "INVALID")]
    for start in red:
        assert any(key.startswith(start) for key in bad), (start, bad[:5])


def test_the_parts_of_a_mask_are_the_whole_mask():
    whole = Tape(3).keep_mask("site", 2, (6, 5), 0.4)
    parts = [PartOfTape(3, rank, 3, 2).keep_mask("site", 2, (2, 5), 0.4) for rank in range(3)]
    assert np.array_equal(np.concatenate(parts), whole)
    other = PartOfTape(3, 1, 3, 2).keep_mask("site", 2, (1, 5), 0.4)  # not by sample
    assert np.array_equal(other, Tape(3).keep_mask("site", 2, (1, 5), 0.4))


def test_one_process_is_no_data_parallelism(checkout):
    done, _ = run(checkout, "--processes", "1")
    assert done.returncode == 2 and "not a number from 2" in done.stderr
