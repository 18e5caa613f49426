"""Tasks at once: each is answered once, and what they run ends with them, whatever ends them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkout import ROOT

from twincheck.common.system.errors import UserError
from twincheck.extras.shared import jobs

# A program of ours that waits until a file is there, in tasks of a process of its own.
WAITS = """
import os, sys, time
from twincheck.common.system.start import begin
begin()
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
"""
SCRIPT = f"""
import os, sys
sys.path.insert(0, sys.argv[3])
from twincheck.extras.shared import jobs
def waits(number):
    with open(os.devnull, "w") as file:
        return jobs.program([sys.executable, "-c", {WAITS!r}, sys.argv[2]], file)
jobs.run(waits, range(4), int(sys.argv[1]), print)
"""


def until(true, seconds=60.0):
    """Wait for what comes true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


def processes(word):
    """Return how many processes have a word in their command, but for the script's own."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        found += word.encode() in command and WAITS.encode() in command
    return found


@pytest.mark.parametrize("count", [1, 3])
def test_each_task_is_answered_once_and_in_this_thread(count):
    found = []
    jobs.run(lambda number: number * number, range(7), count, lambda *pair: found.append(pair))
    assert sorted(found) == [(n, n * n) for n in range(7)]


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_task_raises_is_raised_here_and_ends_the_others(count, tmp_path):
    def work(number):
        if number == 0:
            with open(tmp_path / "out", "w") as file:
                jobs.program([sys.executable, "-c", "import time; time.sleep(60)"], file)
        raise UserError(f"{number} is refused")

    began = time.monotonic()
    with pytest.raises(UserError, match="^1 is refused$"):
        jobs.run(work, range(count == 1, 5), count, print)
    assert time.monotonic() - began < 30


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("count", [1, 2])
def test_no_process_is_left_where_the_program_ends(tmp_path, number, count):
    word = str(tmp_path / "go")
    command = [sys.executable, "-c", SCRIPT, str(count), word, str(ROOT)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    script = subprocess.Popen(command, stderr=subprocess.PIPE, env=env)
    until(lambda: processes(word) == count)
    script.send_signal(number)
    script.communicate()
    assert script.returncode != 0
    until(lambda: not processes(word), 15)


def test_what_a_program_says_and_one_that_takes_too_long():
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        jobs.captured([sys.executable, "-c", "import time; time.sleep(60)"], timeout=1)
    assert time.monotonic() - began < 30
    done = jobs.captured([sys.executable, "-c", "import sys; print(1); sys.exit('two')"])
    assert (done.returncode, done.stdout, done.stderr) == (1, "1\n", "two\n")
