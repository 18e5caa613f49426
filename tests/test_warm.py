"""Warm interpreters (faults/warm): a run forked from a server is as good as one started cold."""

import json
import os
import subprocess
import sys
import time

import pytest
from builders import ended

from faults import warm
from faults.warm import Interpreters

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


# ---- and its server ends ------------------------------------------------------------------------


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
