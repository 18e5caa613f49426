"""What the tasks of test_jobs.py do, in other processes."""

import os
import signal
import sys
import time

from twincheck.common.system.errors import UserError
from twincheck.extras.shared import task


def squared(number):
    return number * number


def refused(number):
    raise UserError(f"{number} is refused")


def killed_once(folder, number):
    """The task 3 kills its process, the first time."""
    with open(folder / f"{number}-{os.getpid()}", "w"):
        pass
    if number == 3 and len(list(folder.glob("3-*"))) == 1:
        time.sleep(0.5)  # the others have begun
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return number * number


def killed_always(number):
    os.kill(os.getpid(), signal.SIGKILL)


def waits(folder, number):
    """Wait, in a program of its own, until the test says so."""
    with open(folder / f"{number}-{os.getpid()}", "w") as file:
        program = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)"
        status, _ = task.run([sys.executable, "-c", program, str(folder / "go")], file)
    return number, status


def environment_of(number):
    return task.settings(os.environ)
