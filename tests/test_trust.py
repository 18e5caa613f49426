"""Logs that somebody sent: nothing in them is executed, and none counts for another run."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from builders import edit_json, printed, write_log
from forged import gadgets, judge, spoil

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import Sidecar, seal
from twincheck.common.report.guide_report import guide_report
from twincheck.common.system.errors import LogError


def test_a_log_that_claims_transplants_is_not_unpickled(folder, tmp_path, capsys):
    """Equal logs are let through then, and so was a log that nobody had read before reprod_log."""
    canary = tmp_path / "executed"
    stream = gadgets(f"touch '{canary}'")["value, protocol 4"]
    spoil(folder / "forward_all_paddle.npy", stream, transplanted=["softmax"])
    assert "forward_all_paddle.npy: refused: posix.system" in printed(capsys, 2, judge(folder)).err
    assert not canary.exists()


def test_reprod_logs_own_report_unpickles_nothing(folder, tmp_path):
    """Even of a log that changed after it was judged."""
    canary = tmp_path / "executed"
    sides = [folder / f"forward_all_{side}.npy" for side in ("torch", "paddle")]
    target = tmp_path / "spoilt.npy"
    shutil.copy(sides[1], target)
    shutil.copy(sides[1].with_suffix(".json"), target.with_suffix(".json"))
    spoil(target, gadgets(f"touch '{canary}'")["value, protocol 4"])
    assert guide_report(sides[0], target, 1e-6, folder / "bad_diff.log") is None
    assert guide_report(*sides, 1e-6, folder / "forward_diff.log") is True
    assert not canary.exists() and not (folder / "bad_diff.log").exists()


def test_two_reports_at_once_do_not_mix(tmp_path):
    """Steps are judged beside each other, and reprod_log's logger is the process's."""
    targets = [tmp_path / f"{number}_diff.log" for number in range(2)]
    write_log(tmp_path / "log.npy", {f"{number}": np.ones(3) for number in range(2000)})
    logs = [tmp_path / "log.npy"] * 2
    with ThreadPoolExecutor(len(targets)) as threads:
        done = list(threads.map(lambda target: guide_report(*logs, 1e-6, target), targets))
    lines = [[line[22:] for line in target.read_text().splitlines()] for target in targets]
    assert all(done) and lines[0] == lines[1] and len(lines[0]) > 2000


def entries(folder, log, **changes):
    edit_json(folder / f"{log}.json", **changes)


def copy(folder, log, name):
    for ending in (".npy", ".json"):
        shutil.copy(folder / f"{log}{ending}", folder / f"{name}{ending}")


def only_in_fp64(folder):
    for side in ("torch", "paddle"):
        entries(folder, f"forward_all_{side}_fp64", inputs_sha256="3" * 64)


def other_precision(folder):
    for side in ("torch", "paddle"):
        copy(folder, f"forward_all_{side}_fp64", f"forward_all_{side}")


def a_side_twice(folder):
    copy(folder, "forward_all_torch", "forward_all_paddle")
    copy(folder, "forward_all_torch_fp64", "forward_all_paddle_fp64")


def a_lie_about_the_side(folder):
    a_side_twice(folder)
    for log in ("forward_all_paddle", "forward_all_paddle_fp64"):
        file = "/site-packages/paddle/__init__.py"
        entries(folder, log, framework="paddle", frameworks_loaded=["paddle"], framework_file=file)


def own_operators_as_exact_ones(folder):
    """The teacher-forced run that shows which differences are Paddle's must be what it says."""
    copy(folder, "forward_all_paddle_fp64", "forward_all_paddle_fp64_exact")
    entries(folder, "forward_all_paddle_fp64_exact", teacher_forced=True)


TEACHER_FORCED = "forward_all_paddle_fp64_teacher_forced"
EXACT = "forward_all_paddle_fp64_free"


def exact_operators_as_own_ones(folder):
    copy(folder, "forward_all_paddle_fp64", TEACHER_FORCED)
    entries(folder, TEACHER_FORCED, teacher_forced=True, exact=True)


def another_log_behind_the_judged(folder):
    """Such as step 5's train_full: it is read, though it is not the log that the step judges."""
    copy(folder, "forward_all_torch", "train_full_torch")
    copy(folder, "forward_all_torch", "train_full_paddle")


PROVENANCE = [
    (a_lie_about_the_side, "hold the same bits: one side's log was given twice"),
    (only_in_fp64, "_all_paddle.npy and forward_all_paddle_fp64.npy are from different inputs"),
    (other_precision, "forward_all_paddle.npy holds a float64 run, not a float32 one"),
    (lambda f: entries(f, "forward_all_paddle_fp64", teacher_forced=True),
     "comes from a run that was fed the reference's values"),
    (lambda f: copy(f, "forward_all_paddle_fp64", TEACHER_FORCED),
     "comes from a run that was not fed the reference's values"),
    (own_operators_as_exact_ones, "comes from a run of Paddle's own operators"),
    (lambda f: copy(f, "forward_all_paddle_fp64", EXACT),
     "comes from a run of Paddle's own operators"),
    (exact_operators_as_own_ones, "comes from a run of exact operators"),
    (another_log_behind_the_judged, "train_full_paddle.npy was made by torch, not paddle"),
    (lambda f: entries(f, "forward_all_paddle_fp64", mode="eval"), "from different modes (--mode)"),
    (lambda f: entries(f, "forward_all_torch", torch_is_paddle=True),
     "remove paddle.enable_compat()"),
    (lambda f: entries(f, "forward_all_torch", framework_kernels=["torch", "paddle"]),
     "forward_all_torch.npy: what computed in its process was torch and paddle's own code"),
    (lambda f: entries(f, "forward_all_paddle", framework_kernels=["torch"]),
     "forward_all_paddle.npy: what computed in its process was torch's own code"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), PROVENANCE)
def test_logs_of_other_runs_are_refused(folder, capsys, change, said):
    change(folder)
    error = printed(capsys, 2, judge(folder, "--no-report")).err
    assert said in error and error.count("error:") == 1


def test_a_run_of_exact_operators_that_is_fed_nothing_may_lie_beside(folder):
    """A check leaves it where it shows what is left; --compare-only judges the folder again."""
    copy(folder, "forward_all_paddle_fp64", "forward_all_paddle_fp64_free")
    entries(folder, "forward_all_paddle_fp64_free", exact=True)
    assert judge(folder, "--no-report") == 0


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
@pytest.mark.parametrize("log", ["forward_all_paddle", "forward_all_torch_fp64"])
def test_what_is_no_file_is_refused_and_not_passed_over(folder, tmp_path, capsys, kind, log):
    path = folder / f"{log}.npy"
    path.rename(tmp_path / "real.npy")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("real.npy" if kind == "link" else "nowhere"))
    assert judge(folder, "--no-report") == 2
    said = "a symbolic link" if kind in ("link", "dangling") else "not a plain file"
    assert f"{log}.npy: refused: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("entry", ["framework", "framework_file", "command", "log_sha256"])
def test_a_seal_is_broken_by_another_log_or_maker(entry):
    made = dict(framework="torch", framework_file="/torch.py", command="a", log_sha256="1" * 64)
    told = Sidecar(**made, seal=seal(Sidecar(**made)))
    assert told.sealed and not replace(told, **{entry: "other"}).sealed


def test_a_log_folder_may_be_a_link(folder, tmp_path, capsys):
    """A link to a whole folder holds the log and its sidecar together; one to a log does not."""
    folder.parent.rename(tmp_path / "elsewhere")
    (tmp_path / "step1_forward").symlink_to(tmp_path / "elsewhere")
    assert judge(folder, "--no-report") == 0


def test_a_log_that_is_written_to_while_it_is_read_is_an_error(tmp_path):
    path = tmp_path / "log.npy"
    write_log(path, {"a": np.ones(100_000)})
    with read_log(path) as log:
        assert log["a"].sum() == 100_000
        with open(path, "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            file.write(b"\x01" * 8)
        os.utime(path, ns=(1, 1))  # two writes may fall into one tick of a coarse clock
        with pytest.raises(LogError, match="log.npy: a: the file was written to while it was read"):
            log["a"]
