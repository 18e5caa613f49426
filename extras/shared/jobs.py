"""Many tasks at once on this machine: threads, which wait for the programs that their tasks run.

run(work, tasks, jobs, on_result)                    on_result(task, work(task)), as each ends
status = program([sys.executable, "x.py"], file)     its exit status
done = captured([sys.executable, "x.py"])            with what it has said
"""

import os
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from contextlib import ExitStack, suppress
from typing import IO, Any

from twincheck.common.system.processes import Child
from twincheck.common.system.signals import Beside, raise_if_stopped

_LOOK_EVERY_S = 0.5  # whether a program is still wanted


def run(
    work: Callable[[Any], Any],
    tasks: Sequence[Any],
    jobs: int,
    on_result: Callable[[Any, Any], None],
) -> None:
    """Run work(task) for each task, `jobs` at a time, and on_result(task, result) as each ends.

    The tasks begin in their order; on_result is called in this thread.  What a task raises ends the
    others with the programs that they run, as Ctrl-C does, and is raised here.
    """
    answers: dict[Future, Any] = {Future(): task for task in tasks}
    waiting = deque(answers.items())

    def take_turns() -> None:
        with suppress(IndexError):  # none is left
            while True:
                answer, task = waiting.popleft()
                try:
                    answer.set_result(work(task))
                except BaseException as error:
                    waiting.clear()
                    answer.set_exception(error)

    with ExitStack() as stack:
        for _ in range(min(jobs, len(tasks))):
            stack.enter_context(Beside(take_turns))
        stack.callback(waiting.clear)
        for answer in as_completed(answers):
            on_result(answers[answer], answer.result())


def program(
    command: Sequence[str],
    output: IO,
    errors: IO | None = None,
    timeout_s: float = float("inf"),
    **options: Any,
) -> int:
    """Run a program in a process group of its own; returns its exit status.

    errors    where its standard error goes; by default to `output` too
    options   env and cwd, as subprocess takes them

    Raises subprocess.TimeoutExpired after timeout_s.  The program ends where its task does; one of
    ours also ends with this process, however that ends (common/system/start.py).
    """
    env = options.pop("env", None) or dict(os.environ)
    child = Child(command, env, stdout=output, stderr=errors or output, **options)
    until = time.monotonic() + timeout_s
    try:
        while True:
            try:
                return child.wait(_LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                raise_if_stopped()
                if time.monotonic() > until:
                    raise subprocess.TimeoutExpired(list(command), timeout_s) from None
    finally:
        child.stop()


def captured(
    command: Sequence[str], timeout: float = float("inf"), **options: Any
) -> subprocess.CompletedProcess:
    """Run a program as `program` does; returns its status with what it has said."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = program(command, output, errors, timeout, **options)
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(list(command), status, *said)
