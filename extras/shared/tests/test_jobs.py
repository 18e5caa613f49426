"""Tasks here and on a cluster of two workers: each is answered once, whoever is killed."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest
from checkout import ROOT

from faults import run
from faults.catalogue import FAULTS
from faults.correct import CORRECT
from twincheck.common.system.errors import UserError
from twincheck.extras.shared import cluster as cluster_module
from twincheck.extras.shared import jobs, task
from twincheck.extras.shared.jobs import Place
from twincheck.extras.shared.tests.tasks import (
    environment_of,
    killed_always,
    killed_once,
    refused,
    squared,
    waits,
)

HERE = [Place(1), Place(2)]


def until(true, seconds=60.0):
    """Wait for what comes true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


def processes(word):
    """The processes whose command has a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if word.encode() in command:
            found.append(int(path.parent.name))
    return found


def results(work, tasks, place):
    """Task -> result, each of which came once."""
    found = []
    jobs.run(work, tasks, place, lambda task, result: found.append((task, result)))
    assert len(found) == len(dict(found)) == len(tasks)
    return dict(found)


# ---- here ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", HERE)
def test_each_task_is_answered_once(place, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert results(squared, range(7), place) == {n: n * n for n in range(7)}
    assert results(environment_of, [0], place)[0] == task.settings(os.environ)


@pytest.mark.parametrize("place", HERE)
def test_what_a_task_raises_is_raised_here(place):
    with pytest.raises(UserError, match="^5 is refused$"):
        results(refused, [5, 5, 5], place)


def test_a_killed_process_loses_nothing(tmp_path):
    work = partial(killed_once, tmp_path)
    assert results(work, range(8), Place(2)) == {n: n * n for n in range(8)}
    assert len(list(tmp_path.glob("3-*"))) == 2, "it was killed, and run again"


@pytest.mark.slow
def test_a_task_that_always_kills_its_process_is_a_sentence():
    with pytest.raises(UserError, match="a process was killed 3 times, and none of the 2 tasks"):
        results(killed_always, range(2), Place(2))


SCRIPT = """
import sys
from functools import partial
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from twincheck.extras.shared import jobs
from twincheck.extras.shared.tests.tasks import waits
jobs.run(partial(waits, Path(sys.argv[2])), range(4), jobs.Place(int(sys.argv[1])), print)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("place", HERE)
def test_no_process_is_left_where_the_program_ends(tmp_path, number, place):
    command = [sys.executable, "-c", SCRIPT, str(place.jobs), str(tmp_path), str(ROOT)]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    word = str(tmp_path / "go")
    until(lambda: len(processes(word)) == place.jobs)
    workers = {int(path.name.partition("-")[2]) for path in tmp_path.glob("*-*")}
    program.send_signal(number)
    program.communicate()
    assert program.returncode != 0
    until(lambda: not processes(word), 15)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 15)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from twincheck.extras.shared import task
from twincheck.extras.shared.tests.tasks import waits
task.keeper.tell = lambda sign, group: os.kill(os.getpid(), signal.SIGKILL)
waits(Path(sys.argv[1]), 0)
"""


def test_no_program_begins_that_the_keeper_does_not_know(tmp_path):
    """Killed between the two, this process would leave one that nobody ends."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(ROOT)])
    assert done.returncode == -signal.SIGKILL and len(list(tmp_path.glob("0-*"))) == 1
    until(lambda: not processes(str(tmp_path / "go")), 15)


def test_a_program_that_takes_too_long_is_ended():
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        task.captured([sys.executable, "-c", "import time; time.sleep(60)"], timeout=1)
    assert time.monotonic() - began < 30
    done = task.captured([sys.executable, "-c", "import sys; print(1); sys.exit('two')"])
    assert (done.returncode, done.stdout, done.stderr) == (1, "1\n", "two\n")


class Thing:
    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


def test_what_is_kept_is_used_again_and_closed():
    with task.kept("a", Thing) as first, task.kept("a", Thing) as second:
        assert first is not second
    with task.kept("a", Thing) as third:
        assert third in (first, second)
    with pytest.raises(ValueError), task.kept("a", Thing) as broken:
        raise ValueError
    shared = task.common("b", Thing)
    assert broken.closed and task.common("b", Thing) is shared
    task.close()
    assert first.closed and second.closed and shared.closed


# ---- a cluster -----------------------------------------------------------------------------------


class Cluster:
    """A scheduler and its workers, each a process of its own, in a folder that is none of ours."""

    def __init__(self, folder):
        self.folder, self.started, self.workers = folder, [], []
        file = folder / "scheduler.json"
        self.start("scheduler", "--port", "0", "--scheduler-file", str(file))
        until(lambda: file.is_file() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def start(self, *words, **more):
        values = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-m", "dask", *words, "--dashboard-address", ":0"]
        with open(self.folder / f"{len(self.started)}.log", "w") as log:
            streams = {"stdout": log, "stderr": log}
            one = subprocess.Popen(command, env=values | more, cwd=self.folder, **streams)
        self.started.append(one)
        return one

    def worker(self, **more):
        words = ("worker", self.address, "--no-nanny", "--nthreads", "1")
        self.workers.append(self.start(*words, **more))
        return self.workers[-1]

    def wait_for(self, count):
        """Till so many workers have come, however busy the machine is."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def close(self):
        for one in self.started[::-1]:
            one.kill()
            one.wait()


@pytest.fixture
def cluster(tmp_path):
    pytest.importorskip("distributed")
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def two(cluster):
    workers = [cluster.worker(), cluster.worker()]
    cluster.wait_for(2)
    assert all(worker.poll() is None for worker in workers)
    return cluster


@pytest.mark.slow
def test_a_cluster_answers_each_task_once(two, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    place = Place(scheduler=two.address)
    assert results(squared, range(7), place) == {n: n * n for n in range(7)}
    assert results(environment_of, [0], place)[0] == task.settings(os.environ)
    with pytest.raises(UserError, match="^5 is refused$"):
        results(refused, [5, 5, 5], place)


@pytest.mark.slow
def test_programs_end_where_nobody_waits_for_them(two, tmp_path):
    """Of a cluster's workers, which go on: after Ctrl-C here, and where this is killed."""
    logs = tmp_path / "tasks"
    logs.mkdir()
    script = SCRIPT.replace("jobs.Place(int(sys.argv[1]))", "jobs.Place(scheduler=sys.argv[1])")
    command = [sys.executable, "-c", script, two.address, str(logs), str(ROOT)]
    word = str(logs / "go")
    for number in (signal.SIGINT, signal.SIGKILL):
        program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        until(lambda: len(processes(word)) == 2)
        program.send_signal(number)
        program.communicate()
        until(lambda: not processes(word), 30)
    assert all(worker.poll() is None for worker in two.workers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "said"),
    [("started", "the connection to the scheduler was lost"), ("workers", "no worker for 1 s")],
)
def test_a_cluster_that_goes_is_a_sentence(two, tmp_path, monkeypatch, who, said):
    monkeypatch.setattr(cluster_module, "WITHOUT_WORKER_S", 1.0)
    logs = tmp_path / "tasks"
    logs.mkdir()

    def kill():
        until(lambda: len(processes(str(logs / "go"))) == 2)
        for one in getattr(two, who):
            one.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    with pytest.raises(UserError, match=f"--scheduler {two.address}: .*{said}"):
        results(partial(waits, logs), range(4), Place(scheduler=two.address))
    killing.join()
    until(lambda: not processes(str(logs / "go")), 15)


# ---- rows ----------------------------------------------------------------------------------------

FEW = ("class-weights-mean", "gelu-tanh")  # of two steps


def without_times(found):
    """Rows without what differs from run to run."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key != "seconds"}
    return [without_times(value) for value in found] if isinstance(found, list) else found


def rows(place, python, told=lambda text: None):
    """Return the results of some faults and a user's pair, without times and folders."""
    faults = [fault for fault in FAULTS if fault.id in FEW]
    assert len(faults) == len(FEW)
    said = []

    def tell(text):
        said.append(text)
        told(text)

    pairs = [one for one in CORRECT if one.step == 3 and one.name == "users/many_labels"]
    found = run.judge(faults, pairs, place, tell, python)
    found["controls"].sort(key=str)
    assert len(said) == len(set(said)) == len(faults) + 1
    text = json.dumps(without_times([row for rows in found.values() for row in rows]))
    return json.loads(re.sub(r"/[^ ]*/faults-\w+/\w+/", "", text))


@pytest.mark.slow
def test_the_rows_of_a_cluster_of_which_a_worker_is_killed_are_those_of_one_process(two, request):
    def kill(text):
        if text.startswith("1 of "):
            two.workers[0].kill()  # it has a task, or will have

    here = rows(Place(1), request.config.warm_python)
    there = rows(Place(scheduler=two.address), None, kill)
    assert two.workers[0].wait(10) == -signal.SIGKILL
    for row, same in zip(there, here, strict=True):
        assert row == same


# ---- sentences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "number", "said"),
    [
        ({"backend": "dask"}, None, "--backend dask: which cluster[?] Give --scheduler tcp://"),
        ({"scheduler": "tcp://a:1"}, None, "--scheduler is a cluster's: give --backend dask too"),
        ({"backend": "dask", "scheduler": "tcp://a:1"}, 2, "--jobs: a cluster runs as many at a"),
    ],
)
def test_options_that_say_nothing_together(given, number, said):
    options = Namespace(**{"backend": "loky", "scheduler": ""} | given)
    with pytest.raises(UserError, match=said):
        jobs.place_of(options, number, 1, "--jobs")


def test_where_tasks_run():
    here, there = (Namespace(backend=name, scheduler="") for name in jobs.BACKENDS)
    there.scheduler = "tcp://a:1"
    assert jobs.place_of(here, None, 4, "--jobs") == Place(4)
    assert jobs.place_of(here, 2, 4, "--jobs") == Place(2)
    assert jobs.place_of(there, None, 4, "--jobs").scheduler == "tcp://a:1"


def test_without_distributed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match="needs distributed, which .* has not: install it there"):
        results(squared, [1], Place(scheduler="tcp://127.0.0.1:9"))


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://a"])
def test_a_scheduler_that_does_not_answer(address):
    distributed = pytest.importorskip("distributed")
    began = time.monotonic()
    with pytest.raises(UserError, match=f"--scheduler {address}: .*is `dask scheduler` running"):
        results(squared, [1], Place(scheduler=address))
    # One that is open still closes itself while another one begins, and neither goes on.
    clients = [one for one in gc.get_objects() if issubclass(type(one), distributed.Client)]
    assert {one.status for one in clients} <= {"closed", "newly-created"}
    assert time.monotonic() - began < 4 * cluster_module.PATIENCE_S


@pytest.mark.slow
def test_a_cluster_without_a_worker_or_with_another_environment(cluster, tmp_path, monkeypatch):
    place = Place(scheduler=cluster.address)
    with pytest.raises(UserError, match=f"{cluster.address} has no worker: start one"):
        results(squared, [1], place)
    other = tmp_path / "packages" / "reprod_log-0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: reprod_log\nVersion: 0.1\n")
    worker = cluster.worker(PYTHONPATH=str(other.parent))
    cluster.wait_for(1)
    with pytest.raises(UserError, match=r"the worker tcp://\S+ has reprod_log 0.1, and here it is"):
        results(squared, [1], place)
    worker.kill()
    worker.wait()
    cluster.worker()
    for module in (jobs, cluster_module):
        monkeypatch.setattr(module, "PATH", tmp_path / "nowhere")

    def said():
        with pytest.raises(UserError) as error:
            results(squared, [1], place)
        return str(error.value)

    until(lambda: "every machine of a cluster needs this folder" in said())
    assert f"there is no {tmp_path / 'nowhere'}" in said()
