"""Step 5's trainings by several processes: as one trains, resumed by others, ended together."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from checkout import CHECKS, ROOT, Checkout, change
from forked_group import in_place_of_launchers

from faults.worker import plant
from twincheck.common.pair.case_hooks import make_data
from twincheck.common.pair.data import save_arrays
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import RunRequest, rank_folder
from twincheck.common.pair.shares import Axes, PartOfTape, Share
from twincheck.common.pair.tape import Tape
from twincheck.common.pair.worker_process import _how_one_ended
from twincheck.common.system.processes import environment
from twincheck.step5_train.as_one import first_steps
from twincheck.step5_train.step import main

SIDES = ("torch", "paddle")
GREEN = ("IDENTICAL", "ROUNDING")


# ---- the same training, in processes forked from one that has the framework ----------------------


class Shared:
    """Step 5's first steps of the example, whose gradients are clipped, by one and by several."""

    def __init__(self, folder, root=ROOT):
        self.root = root
        self.pair = folder / "text_classifier"  # one BatchNorm, dropout
        self.folder = folder / "logs"
        if not self.pair.exists():
            shutil.copytree(ROOT / "examples" / "text_classifier", self.pair)
            parts = make_data(load_pair(str(self.pair)), "default", 0).items()
            arrays = {f"{part}/{k}": v for part, arrays in parts for k, v in arrays.items()}
            save_arrays(folder / "data" / "text_classifier" / "samples.npz", arrays)
            self.folder.mkdir()
        self.data = folder / "data"

    def run(self, side, count):
        """Run the first steps of one side."""
        request = RunRequest(
            model=str(self.pair), phase="shared", processes=count, data=str(self.data)
        )
        path = self.folder / f"request_{side}_{count}.json"
        request.write(path)
        module = ["-m", f"step5_train.{side}.train"]
        group = [str(ROOT / "tests" / "forked_group.py"), *module, "--nproc-per-node", str(count)]
        done = subprocess.run(
            [*Checkout.interpreter, "-W", "ignore", *(group if count > 1 else module), str(path)],
            cwd=self.root, env=environment() | {"PYTHONPATH": str(self.root)},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return self

    def rows(self, side):
        """The rows of the several processes against the one."""
        return first_steps(self.folder, "text_classifier", [side])


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    """The folder of one process's logs, of both sides."""
    folder = tmp_path_factory.mktemp("shared")
    for side in SIDES:
        Shared(folder).run(side, 1)
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy, and beside it the example, which every epoch of every process scores on less."""
    made = Checkout(tmp_path_factory.mktemp("processes"), steps=10)
    shutil.copytree(ROOT / "examples" / "text_classifier", made.elsewhere / "text_classifier")
    change(made.elsewhere / "text_classifier" / "case.py", '"test": 800', '"test": 160')
    return made


def copied(by_one, folder, root=ROOT):
    """Copy what one process left, for several processes to be put beside."""
    shutil.copytree(by_one, folder)
    return Shared(folder, root)


@pytest.mark.slow
def test_several_processes_train_as_one(by_one, tmp_path):
    """16 samples by 3 are 5, 5 and 6; whole checks below have 2 and 4."""
    shared = copied(by_one, tmp_path / "several")
    for side in SIDES:
        rows = shared.run(side, 3).rows(side)
        bad = [(row.key, row.verdict, row.gap, row.allowed) for row in rows]
        assert all(row.verdict in GREEN for row in rows), [r for r in bad if r[1] not in GREEN]
        kinds = {row.key.split("/")[2] for row in rows}
        assert {"000", "009", "weight", "buffer", "spread"} <= kinds
    assert (shared.folder / rank_folder(2)).is_dir()


GROUP, TRAIN = "common/sides/group.py", "step5_train/train.py"
# Each process's gradient counts as if its part were the whole batch: their sum, not their mean.
SUMMED = (GROUP, "concat(own)) / copies", "concat(own)) * self.count")
# Every process shuffles by itself.
OWN_ORDER = (TRAIN, '"shuffle", epoch,', '"shuffle", epoch + 7 * run.group.rank,')
# Every process drops the same, the first rows' dropout.
SAME_DROPOUT = (GROUP, "tape.share = share if", "tape.share = Share(0, self.count, rows) if")
# A BatchNorm knows its own process's samples alone.
OWN_STATISTICS = (TRAIN, "        share_statistics(run.side, model, run.group)\n", "")
RED = {
    SUMMED: {"000/grad"},
    OWN_ORDER: {"000/loss", "000/grad"},
    SAME_DROPOUT: {"000/grad", "009/loss"},
    OWN_STATISTICS: {"000/loss", "buffer"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("torch", "paddle"),
    [(SUMMED, OWN_ORDER), (SAME_DROPOUT, OWN_STATISTICS)],
    ids=["summed, own order", "same dropout, own statistics"],
)
def test_what_several_processes_get_wrong_shows(by_one, checkout, tmp_path, torch, paddle):
    """One fault a side; each is held to its own one process."""
    shared = copied(by_one, tmp_path / "several", checkout.root)
    for fault, side in zip((torch, paddle), SIDES, strict=True):
        file, (old, new) = checkout.path(fault[0]), fault[1:]
        assert old in file.read_text()
        undo = plant(file, file.read_text().replace(old, new), side)
        try:
            rows = shared.run(side, 2).rows(side)
        finally:
            undo()
        bad = [row.key.partition(f"/{side}/")[2] for row in rows if row.verdict not in GREEN]
        for start in RED[fault]:
            assert any(key.startswith(start) for key in bad), (side, start, bad[:5])


# ---- a whole check, by the frameworks' own launchers ---------------------------------------------

STEPS = "20"


def check(checkout, out, *more):
    """The command of a check of the example."""
    options = ["--model", str(checkout.elsewhere / "text_classifier"), "--steps", STEPS]
    options += ["--no-report", "--out", str(out), "--checkpoint-every", "3", *more]
    return [*Checkout.interpreter, str(checkout.path(CHECKS[5])), *options]


def members(out):
    """Processes that train something in a folder, as (id, rank)."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                words = file.read().split("\0")
            with open(f"/proc/{name}/environ") as file:
                rank = re.search(r"\0(?:RANK|PADDLE_TRAINER_ID)=(\d+)\0", file.read())
        except OSError:
            continue
        if rank and any(str(out) in word for word in words):
            found.append((int(name), int(rank[1])))
    return found


@pytest.mark.slow
def test_a_process_that_dies_ends_all_and_others_go_on(checkout, tmp_path):
    out = tmp_path / "out"
    kept = out / "step5_train" / ".checkpoints" / "text_classifier"
    first = subprocess.Popen(
        check(checkout, out, "--processes", "2"), cwd=checkout.elsewhere,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 200
    while not (kept / "torch-full-0" / "last.npz").is_file():
        assert first.poll() is None and time.monotonic() < deadline, first.communicate()
        time.sleep(0.02)
    (victim,) = [number for number, rank in members(out) if rank == 1]
    os.kill(victim, signal.SIGKILL)
    said = first.communicate(timeout=60)[1]
    assert first.returncode == 2 and said.count("\n") <= 2
    assert "the torch worker lost a process: process 1 was ended by SIGKILL" in said
    assert not members(out) and [p.name for p in kept.parent.parent.iterdir()] == [
        ".checkpoints", "text_classifier.error.txt"
    ]  # fmt: skip

    report = tmp_path / "rows.json"
    forked = in_place_of_launchers(tmp_path, Checkout.interpreter)
    # Of 160 samples one that lies between two classes may decide a score: no matter here.
    more = ("--processes", "4", "--resume", "--allow", "undecided", "--json", str(report), *forked)
    done = subprocess.run(
        check(checkout, out, *more), cwd=checkout.elsewhere, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 processes of each side shared every batch: their first 10 steps are" in done.stdout
    folder = out / "step5_train" / "text_classifier"
    log = (folder / "train_torch.log").read_text()
    assert re.search(r"goes on from step \d+ of 20, which 2 processes had taken, 4 proc", log)
    steps = [int(n) for n in re.findall(r"Iter: (\d+)/", log)]
    assert len(steps) == int(STEPS) // 10  # no line twice, none missing
    assert not list(folder.glob(rank_folder("*"))) and not kept.parent.exists()
    rows = {row["key"]: row for row in json.loads(report.read_text())["rows"]}
    drift = [row for key, row in rows.items() if key.startswith("processes/torch/drift/")]
    assert len(drift) == 1 and all(row["verdict"] in GREEN for row in drift)
    for side in SIDES:
        assert rows[f"processes/{side}/000/loss"]["verdict"] in GREEN


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
    assert _how_one_ended(["MemoryError"]) == ""


# ---- shares --------------------------------------------------------------------------------------


# The shapes of a mask with 2 and with 3 samples, and with 7; and the axis that is cut.
LAYOUTS = [
    ((2, 5), (3, 5), (7, 5), 0),
    ((5, 2, 4), (5, 3, 4), (5, 7, 4), 1),  # the samples are not first
    ((8, 3, 3), (12, 3, 3), (28, 3, 3), 0),  # 4 heads for each
    ((4, 4), (4, 4), (4, 4), None),  # of weights, whatever the batch
]


@pytest.mark.parametrize(("few", "more", "whole", "axis"), LAYOUTS)
@pytest.mark.parametrize("kind", ["mask", "uniform"])
def test_the_parts_of_a_draw_are_the_whole_draw(few, more, whole, axis, kind):
    axes, parts = Axes([few], [more]), []
    for rank in range(3):
        share = Share(rank, 3, 7)
        shape = list(whole)
        if axis is not None:
            shape[axis] = whole[axis] // 7 * share.sizes[rank]
        parts.append(draw(PartOfTape(3, share, axes), kind, tuple(shape)))
    expected = draw(Tape(3), kind, whole)
    if axis is None:
        assert all(np.array_equal(part, expected) for part in parts)
    else:
        assert np.array_equal(np.concatenate(parts, axis), expected)


def draw(tape, kind, shape):
    return (
        tape.keep_mask("a", 1, shape, 0.3) if kind == "mask" else tape.numbers(kind, shape, "a", 1)
    )


# ---- refused ------------------------------------------------------------------------------------

TWO = ["--processes", "2", "--nnodes", "2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--processes", "0"], "0 is not a number from 1"),
        (["--processes", "33"], "a batch of fastformer has 32 samples"),
        (["--processes", "2", "--compare-only"], "leave out --processes"),
        (["--processes", "2", "--torch-losses", "x"], "--processes has no use with logged"),
        (["--nnodes", "2"], "--nnodes has no use without --processes N"),
        (["--processes", "2", "--master", "a:1"], "--master has no use without --nnodes N"),
        (["--processes", "3", "--nnodes", "2", "--master", "a:1"], "give a multiple"),
        (TWO, "--master HOST:PORT"),
        ([*TWO, "--master", "a:1", "--node-rank", "2"], "2 machines have the numbers 0 to 1"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, said, capsys, monkeypatch, tmp_path):
    options = ["--model", "fastformer", "--out", str(tmp_path / "out"), *words]
    try:
        status = main(options)
    except SystemExit as end:
        status = end.code
    told = capsys.readouterr()
    assert status == 2 and said in told.err and told.err.count("\n") == 1, told.err
    assert not told.out and not (tmp_path / "out").exists()
