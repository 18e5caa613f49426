"""Checks that are killed, run beside each other, or find no room: a sentence, and nothing lost."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders import SMALL_CNN, ended
from forged import contents, judge, write_result

from twincheck.common.check.command_line import check_main
from twincheck.common.check_all import all_steps
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.folders import put_in_place, remove_abandoned, working_folder
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.signals import Beside, Stopped, put_off, stoppable

PAIR = str(SMALL_CNN)
CHECK = [sys.executable, str(ROOT / "step1_forward" / "check_step1.py"), "--model", PAIR]
FOLDER = "step1_forward/small_cnn"  # of a result, below --out
SOON_S = 20.0  # what takes a tenth of a second may take longer on a busy machine


@pytest.fixture
def out(folder):
    """A folder for --out with a former result of step 1, which no run here may lose."""
    return folder.parents[1]


def run(out, *options, shell: str = "", **popen) -> subprocess.CompletedProcess:
    """check_step1.py as a program; `shell` goes before it."""
    command = [*CHECK, "--no-report", "--out", str(out), *options]
    command = ["/bin/sh", "-c", f'{shell}; exec "$@"', "sh", *command] if shell else command
    popen = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | popen
    return subprocess.run(command, timeout=240, **popen)


def wait_for(condition) -> None:
    until = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """True for a process that runs; one that has ended and waits for its parent does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")


# ---- killed -------------------------------------------------------------------------------------

PARENT = """
import sys, time
from twincheck.common.system.processes import Child
child = Child([sys.executable, "-c", sys.argv[1]], {"PYTHONPATH": sys.argv[2]})
print(child.pid, flush=True)
time.sleep(60)
"""
WORKER = """
import subprocess, sys, time
from twincheck.common.system.processes import watch
watch()
loader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(loader.pid, flush=True)
time.sleep(60)
"""


def started(child: str) -> tuple[subprocess.Popen, list[int]]:
    """A process that starts another, which runs `child` and prints what it starts itself."""
    command = [sys.executable, "-c", PARENT, child, str(ROOT)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return parent, [int(parent.stdout.readline()) for _ in range(2)]


def test_a_worker_and_what_it_started_end_with_a_check_that_is_killed():
    parent, pids = started(WORKER)
    assert all(map(alive, pids))
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(map(alive, pids)))
    parent.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_check_stopped_while_its_workers_run(out, number):
    before = contents(out / FOLDER)
    base = out / "step1_forward"
    # In a session of its own, as on a terminal: Ctrl-C reaches the whole foreground group.
    command = [*CHECK, "--no-report", "--out", str(out)]
    check = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(lambda: list(base.glob(".work-*/small_cnn/reference.json")))
    time.sleep(0.5)
    os.killpg(check.pid, number)
    said = check.communicate(timeout=60)[1]
    assert contents(out / FOLDER) == before
    if number == signal.SIGKILL:
        assert check.returncode == -signal.SIGKILL and list(base.glob(".work-*"))
    else:
        assert check.returncode == 2 and said.count("\n") == 1
        assert said.startswith(f"error: stopped by {number.name}: ")
        assert not list(base.glob(".*"))
    assert judge(out / FOLDER, "--no-report") == 0  # reads the former result, and tidies
    assert not list(base.glob(".*")) and contents(out / FOLDER) == before


def make_results(base, *names):
    """Folders that know their own names."""
    for name in names:
        (base / name).mkdir()
        (base / name / "which").write_text(name)


SWAP = """
import os, signal, sys
from pathlib import Path
from twincheck.common.system import folders
base, fatal = Path(sys.argv[1]), int(sys.argv[2])
real, calls = os.replace, []
def replace(*paths):
    calls.append(paths)
    if len(calls) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*paths)
os.replace = replace
real_rmtree = folders.shutil.rmtree
def rmtree(path, **options):
    if fatal == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    real_rmtree(path, **options)
folders.shutil.rmtree = rmtree if fatal == 3 else real_rmtree
folders.put_in_place(base / "made", base / "model")
"""


@pytest.mark.parametrize("fatal", [1, 2, 3, 4])
def test_a_check_killed_while_it_swaps_leaves_the_former_or_the_new_result(tmp_path, fatal):
    make_results(tmp_path, "model", "made")
    command = [sys.executable, "-c", SWAP, str(tmp_path), str(fatal)]
    ended(0 if fatal == 4 else -signal.SIGKILL, subprocess.run(command, cwd=ROOT))
    remove_abandoned(tmp_path)
    assert (tmp_path / "model" / "which").read_text() == ("model" if fatal < 3 else "made")
    assert not list(tmp_path.glob(".*"))


def test_ctrl_c_waits_for_the_swap(tmp_path, monkeypatch):
    make_results(tmp_path, "model", "made")
    real = os.replace

    def replace(*paths):
        real(*paths)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(Stopped, match="SIGINT"), stoppable():
        put_in_place(tmp_path / "made", tmp_path / "model")
    assert (tmp_path / "model" / "which").read_text() == "made"
    assert os.listdir(tmp_path) == ["model"]


def test_one_signal_stops_and_the_next_do_not_disturb_the_tidying():
    tidied = []
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Stopped, match="SIGTERM"), stoppable():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            tidied.append(True)
    assert tidied
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), put_off():
        signal.raise_signal(signal.SIGINT)
        tidied.append(True)
    assert len(tidied) == 2


def test_what_runs_beside_gives_its_result_or_its_error():
    with Beside(lambda: 3) as beside:
        pass
    assert beside.result() == 3

    def fails():
        raise UserError("no such file")

    with pytest.raises(UserError, match="no such file"), Beside(fails) as beside:
        beside.result()


@pytest.mark.slow
def test_make_check_stopped_while_it_trains_beside_the_other_steps(tmp_path):
    command = [sys.executable, "-m", "twincheck", "check", "--model", "fastformer"]
    command += ["--no-report", "--out", str(tmp_path)]
    check = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for step in ("step1_forward", "step5_train"):
        wait_for(lambda step=step: list(tmp_path.glob(f"{step}/.work-*/fastformer/reference.json")))
    workers = subprocess.run(["pgrep", "-P", str(check.pid)], capture_output=True, text=True).stdout
    os.killpg(check.pid, signal.SIGINT)
    said = check.communicate(timeout=60)[1]
    assert check.returncode == 2 and said.count("\n") == 1, said
    assert said.startswith("error: stopped by SIGINT: ")
    assert len(workers.split()) >= 4 and not any(alive(int(pid)) for pid in workers.split())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_swap_that_cannot_be_done_brings_the_former_result_back(tmp_path, monkeypatch):
    make_results(tmp_path, "model")
    monkeypatch.setattr("twincheck.common.system.folders._PAUSE_S", 0.0)
    with pytest.raises(UserError, match="No such file or directory; the former result is still"):
        put_in_place(tmp_path / "absent", tmp_path / "model")
    assert (tmp_path / "model" / "which").read_text() == "model"
    assert os.listdir(tmp_path) == ["model"]


def test_a_result_does_not_take_the_place_of_a_link(tmp_path):
    make_results(tmp_path, "elsewhere", "made")
    (tmp_path / "model").symlink_to("elsewhere")
    with pytest.raises(UserError, match="model is a symbolic link, whose place no result can take"):
        put_in_place(tmp_path / "made", tmp_path / "model")
    assert (tmp_path / "model").is_symlink() and (tmp_path / "made").is_dir()


# ---- beside each other --------------------------------------------------------------------------

BUSY = """
import sys
from pathlib import Path
from twincheck.common.system.folders import put_in_place, remove_abandoned, working_folder
base, name = Path(sys.argv[1]), sys.argv[2]
for i in range(40):
    remove_abandoned(base)
    with working_folder(base) as work:
        made = work / "model"
        made.mkdir()
        for file in "abc":
            (made / file).write_text(f"{name} {i}")
        put_in_place(made, base / "model")
"""


def test_checks_at_once_mix_nothing_and_remove_nothing_of_each_other(tmp_path):
    running = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path), str(i)], cwd=ROOT)
        for i in range(3)
    ]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    assert os.listdir(tmp_path) == ["model"]
    found = {(tmp_path / "model" / file).read_text() for file in "abc"}
    assert len(found) == 1 and found.pop().endswith(" 39")


def test_the_working_folder_of_another_container_stays(tmp_path):
    """Its process has a number that means nothing here; its lock does."""
    with working_folder(tmp_path) as work:
        foreign = tmp_path / f".work-{2**22 - 1}-x"  # no process has this number
        work.rename(foreign)
        (tmp_path / f".work-{2**22 - 1}-y").mkdir()
        remove_abandoned(tmp_path)
        assert os.listdir(tmp_path) == [foreign.name]
        foreign.rename(work)


def test_a_newer_result_that_comes_while_one_is_judged_is_judged_instead(out, capsys, monkeypatch):
    import twincheck.common.check.result as judging

    write_result(out / "newer" / "small_cnn", seed=5)
    real, calls = judging.folder_problems, []

    def swapped(folder, fresh=(), backends=SIDES):
        calls.append(folder)
        if len(calls) == 1:  # hashes of the former result, logs of the next
            put_in_place(out / "newer" / "small_cnn", folder)
            raise UserError("a mixture of two results")
        return real(folder, fresh, backends)

    monkeypatch.setattr(judging, "folder_problems", swapped)
    assert judge(out / FOLDER, "--no-report") == 0 and len(calls) == 2
    assert "mixture" not in capsys.readouterr().err


# ---- no room ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_disk_that_fills_up_while_the_workers_run(out):
    """A limit on the size of files stands for it, which needs no rights and works everywhere."""
    before = contents(out / FOLDER)
    done = run(out, shell="ulimit -f 60")  # blocks of 512 bytes; a log has 100 KB
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert ".npy cannot be written: File too large" in done.stderr
    assert done.stderr.count("error:") == 1
    assert contents(out / FOLDER) == before and not list((out / "step1_forward").glob(".*"))


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


@FULL
def test_a_table_that_finds_no_room(out):
    with open("/dev/full", "w") as full:
        done = run(out, "--compare-only", stdout=full)
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device: standard output\n"


def test_a_device_or_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with whole(tmp_path / "pipe") as place:
        assert place == tmp_path / "pipe"
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    (tmp_path / "link").symlink_to("report.json")
    with whole(tmp_path / "link") as place:
        place.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "report.json").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe", "report.json"]


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_a_place_that_cannot_be_written_to(out, capsys, option):
    """A file stands where a folder should: that stops the superuser too."""
    (out / "file").write_text("kept")
    arguments = ["--model", PAIR, "--no-report", option, str(out / "file" / "x")]
    if option == "--json":
        arguments += ["--compare-only", "--out", str(out)]
    assert check_main(all_steps()[0], arguments) == 2
    error = capsys.readouterr().err
    assert error.count("error:") == 1 and str(out / "file") in error
    assert (out / "file").read_text() == "kept"


def test_a_folder_that_may_only_be_read_is_judged_all_the_same(out):
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    folders = [out / "step1_forward" / "small_cnn", out / "step1_forward"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert judge(out / FOLDER, "--no-report") == 0
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("closed", ["<&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(out, closed):
    target = out / "report.json"
    ended(0, run(out, "--compare-only", "--json", str(target), shell=f"exec {closed}"))
    assert json.loads(target.read_text())["verdict"] == "ROUNDING"


def test_a_reader_that_has_gone_is_no_verdict(out):
    """Status 1 would say that the two sides differ."""
    reading, writing = os.pipe()
    os.close(reading)
    done = run(out, "--compare-only", stdout=writing)
    os.close(writing)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_a_terminal_that_knows_few_characters(out):
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run(out, "--compare-only", env=environment)
    assert done.returncode == 0 and "ROUNDING" in done.stdout
