"""Warm interpreters (faults/warm): a run forked from a server is as good as one started cold."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from builders import ended
from checkout import ROOT

from faults import warm
from faults.warm import Interpreters
from twincheck.common.system.processes import Child

SIDES = ("torch", "paddle")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked but on Linux")
QUIET = ("-W", "ignore", "-m")
# What a worker sees of the process that it runs in.
PROBE = """
import sys
import numpy
import SIDE
import json, os, signal, warnings

def number(handler):
    return handler if isinstance(handler, int) else str(handler)

streams = [
    [type(s.buffer).__name__, s.encoding, s.errors, s.line_buffering, s.write_through, s.name]
    for s in (sys.stdin, sys.stdout, sys.stderr)
]
seen = {
    "modules": sorted(sys.modules),
    "path": sys.path,
    "argv": sys.argv,
    "original": sys.orig_argv,
    "executable": sys.executable,
    "flags": str(sys.flags),
    "warnings": [sys.warnoptions, str(warnings.filters)],
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "main": [sys.modules["__main__"].__spec__.name, sys.modules["__main__"].__file__],
    "signals": [number(signal.getsignal(n)) for n in range(1, 32)],
    "streams": streams,
    "threads": len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1,
    "first of its group": os.getpgrp() == os.getpid(),
    "umask": os.umask(0o077),
    "given": sys.stdin.read(),
    "parent": os.getppid(),
}
print(json.dumps(seen))
"""
ENDS = {
    "nothing": ("", 0, ""),
    "status": ("import sys; sys.exit(3)", 3, ""),
    "exception": ("print(1 / 0)", 1, "ZeroDivisionError: division by zero\n"),
    "signal": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
}
# Writes its number, then waits to be ended; `watch` is what workers call.
WAITS = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from twincheck.common.system.processes import watch
watch()
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(60)
"""


@pytest.fixture(scope="module")
def interpreters():
    """Servers of this file's own: some tests here end them."""
    with Interpreters() as made:
        assert made.python != sys.executable
        yield made


@pytest.fixture
def program(tmp_path):
    """Writes a module that counts as a side's worker; (side, text) -> its name."""

    def write(side, text):
        folder = tmp_path / "step0_probe" / side
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.py").write_text(text)
        return f"step0_probe.{side}.program"

    return write


def worker_environment():
    values = os.environ | {"PYTHONUNBUFFERED": "1"}
    return values | warm.environment()


def run(python, module, folder, *arguments, **options):
    options = {"env": worker_environment(), "text": True, "capture_output": True} | options
    command = [str(python), *QUIET, module, *arguments]
    return subprocess.run(command, cwd=folder, timeout=60, **options)


def seen(python, module, folder, **options):
    """Return what PROBE prints."""
    done = ended(0, run(python, module, folder, "an argument", input="a line\n", **options))
    return json.loads(done.stdout)


def wait_for(path):
    """The number that a program has written."""
    for _ in range(600):
        if path.is_file():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"no {path.name} within 30 s")


def has_ended(pid):
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


# ---- a forked run sees what a cold one does ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_a_worker_sees_what_it_would_see_in_a_process_of_its_own(
    interpreters, program, tmp_path, side
):
    module = program(side, PROBE.replace("SIDE", ", ".join(warm.IMPORTS[side])))
    cold, forked = (seen(p, module, tmp_path) for p in (sys.executable, interpreters.python))
    assert cold.pop("parent") == os.getpid() != forked.pop("parent")
    assert set(forked.pop("modules")) <= set(cold.pop("modules"))
    assert forked.pop("first of its group") and not cold.pop("first of its group")
    for each in (cold, forked):
        each["environment"].pop("PWD", None)  # the client is a shell's
    assert forked == cold
    assert cold["threads"] == 1


# ---- and ends as a cold one does -----------------------------------------------------------------


@pytest.mark.parametrize("name", ENDS)
def test_a_run_ends_as_it_would_end_alone(interpreters, program, tmp_path, name):
    text, status, said = ENDS[name]
    module = program("torch", "import sys; print('out'); print('said', file=sys.stderr)\n" + text)
    done = run(interpreters.python, module, tmp_path)
    assert (done.returncode, done.stdout) == (status, "out\n")
    assert done.stderr.startswith("said\n") and done.stderr.endswith(said), done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_to_the_client_ends_the_run(interpreters, program, tmp_path, number):
    command = [interpreters.python, *QUIET, program("torch", WAITS), tmp_path / "pid", ROOT]
    options = {"cwd": tmp_path, "env": worker_environment(), "stderr": subprocess.DEVNULL}
    with subprocess.Popen(list(map(str, command)), **options) as client:
        pid = wait_for(tmp_path / "pid")
        assert pid != client.pid
        client.send_signal(number)
        assert client.wait(20) == -number
    assert has_ended(pid)


def test_a_run_ends_with_whoever_started_its_client(interpreters, program, tmp_path):
    """The watch on the parent: its pipe must reach the forked process."""
    command = [interpreters.python, *QUIET, program("torch", WAITS), tmp_path / "pid", ROOT]
    child = Child(list(map(str, command)), worker_environment(), cwd=tmp_path)
    pid = wait_for(tmp_path / "pid")
    child.let_go()  # as the system does for a process that is gone
    assert child.wait(20) == -signal.SIGKILL
    assert has_ended(pid)


def test_the_servers_end_with_who_started_them(tmp_path):
    script = (
        "import sys\nfrom faults.warm import Interpreters\nmade = Interpreters()\n"
        "print(*[server.pid for server in made._servers], made.folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with starter:
        *pids, folder = starter.stdout.readline().split()
        starter.kill()
    assert len(pids) == len(warm.IMPORTS) and all(has_ended(int(pid)) for pid in pids)
    for name in warm.IMPORTS:  # a killed process leaves its folder
        os.unlink(os.path.join(folder, name))
