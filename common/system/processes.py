"""Processes that run a worker: how they are started, read and ended.

A process ends with the one that started it, however that one ended: the parent keeps one end of a
pipe open and says nothing; when it is gone, killed or not, the system closes that end and the child
reads the end of the pipe.  That needs no signal and works on every Unix.

No NumPy, no framework: a worker calls `watch` before it imports anything slow.
"""

import atexit
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.checkout import PATH
from twincheck.common.system.door import VARIABLE as DOOR
from twincheck.common.system.door import to_type
from twincheck.common.system.frameworks import ON_GPU
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.system.signals import is_beside, raise_if_stopped

_PARENT = "ALIGNMENT_WORKBENCH_PARENT"  # the number of the pipe's end, for the child
# What gives a process a group of its own; Python 3.10's Popen does that with a session alone.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
_KEPT_LINES = 500  # of what a worker says on standard error
_LONGEST_LINE = 1 << 16
_PATIENCE_S = 5.0
_LOOK_EVERY_S = 0.5  # whether a process that owes an answer still runs
_PROGRESS, _ANSWER = "@progress ", "@done "  # how lines of a worker's standard output begin

NEEDED: dict[str, Mapping[str, str]] = {}  # a Python's path -> variables that its workers need


def environment(device: str = "cpu", python: str = "") -> dict[str, str]:
    """A worker's environment: the user's own, and what makes Paddle fast on these processors."""
    values = dict(os.environ)
    for name, value in NEEDED.get(python, {}).items():
        values[name] = ":".join(filter(None, [value, values.get(name)]))
    if device == "gpu":
        values = ON_GPU | values
    users = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    paths = dict.fromkeys([str(PATH), *map(os.path.abspath, users)])  # a worker is elsewhere
    values["PYTHONPATH"] = os.pathsep.join(paths)
    values["PYTHONUNBUFFERED"] = "1"
    values.setdefault("PYTHONHASHSEED", "0")  # a set of names has one order in every run
    values[DOOR] = to_type()
    values.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    # A thread that waits for work sleeps: one that looks for it takes the core of a process that
    # has some, and where those outnumber the cores, a check takes twice as long.
    values.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # glibc gives every large array back to the system at once and asks for it anew, page by page: a
    # sixth of the time of BERT-base's optimizers.  These keep memory in the process, up to a limit.
    values.setdefault("MALLOC_MMAP_MAX_", "0")
    values.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**30))
    if processor_is_amd():
        values.setdefault("MKL_DEBUG_CPU_TYPE", "5")
    return values


def processor_is_amd() -> bool:
    """True on AMD, where Paddle's MKL takes its slow path unless MKL_DEBUG_CPU_TYPE is 5."""
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


class Child(subprocess.Popen):
    """A process in a group of its own that ends, if it calls `watch`, when this process does.

    A group of its own, so that Ctrl-C reaches the parent alone, which then ends the child and
    whatever that has started.
    """

    def __init__(self, command: Sequence[str], env: dict[str, str], **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        reading, self._alive = os.pipe()
        try:
            super().__init__(
                list(command),
                env=env | {_PARENT: str(reading)},
                pass_fds=(reading,),
                **OWN_GROUP,
                **options,
            )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(reading)

    def let_go(self) -> None:
        """Close the pipe once the process has ended."""
        # Another thread may stop the process meanwhile: the one that takes the pipe closes it.
        alive = vars(self).pop("_alive", None)
        if alive is not None:
            os.close(alive)

    def stop(self) -> None:
        """End the process and those that it started, if it still runs."""
        if self.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self.wait(timeout=_PATIENCE_S)
                    break
        self.let_go()


@dataclass(frozen=True)
class Told:
    """A worker's line of progress; as text the model and what is run of it."""

    model: str
    share: float | None  # of what was asked for, 0 to 1; None: nobody knows
    dtype: str
    what: str

    @classmethod
    def read(cls, line: str) -> "Told | None":
        """Read the line that a worker printed; None for a line of the model's own."""
        try:
            model, share, dtype, what = json.loads(line)
            return cls(str(model), None if share is None else float(share), str(dtype), str(what))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        return f"{self.model} {self.dtype} {self.what}"


class Process:
    """A worker script that is running; its progress lines go to `on_progress` as they come.

    asks    the process takes lines on standard input, answers each, and ends where they end
    """

    def __init__(
        self,
        command: Sequence[str],
        on_progress: Callable[[Told], None],
        threads: int | None = None,
        device: str = "cpu",
        asks: bool = False,
    ):
        values = environment(device, command[0])
        if threads is not None and "OMP_NUM_THREADS" not in os.environ:
            values["OMP_NUM_THREADS"] = str(threads)
        self.stderr: deque[str] = deque(maxlen=_KEPT_LINES)
        self._answers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._process = Child(
            command,
            values,
            cwd=PATH,
            stdin=subprocess.PIPE if asks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        said = (line.rstrip("\n") for line in _lines(self._process.stderr))
        self._threads = [
            threading.Thread(target=self._read_stdout, args=(on_progress,), daemon=True),
            threading.Thread(target=self.stderr.extend, args=(said,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_stdout(self, on_progress: Callable[[Told], None]) -> None:
        for line in _lines(self._process.stdout):
            if line.startswith(_PROGRESS):
                if told := Told.read(line[len(_PROGRESS) :]):
                    try:
                        on_progress(told)
                    except Exception as error:  # the answers are read on, whatever shows this
                        traceback.print_exception(error)
            elif line.startswith(_ANSWER):
                self._answers.put(int(line[len(_ANSWER) :]))
        self._answers.put(None)  # it has ended

    def ask(self, line: str) -> None:
        """Hand a line to the process; `answer` gives what it says to each, in their order."""
        with suppress(BrokenPipeError):  # it has ended, which `answer` finds
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def answer(self) -> int | None:
        """Wait for the next answer, an exit status; None where the process ended without one."""
        while True:
            try:
                answer = self._answers.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:  # what it started may hold its output open
                raise_if_stopped()
                if self._process.poll() is None:
                    continue
                answer = None
            if answer is None:
                self._answers.put(None)  # nor will there be another
            return answer

    @property
    def has_ended(self) -> bool:
        """True once the process has ended or was told to."""
        return self._process.stdin.closed or self._process.poll() is not None

    def end(self) -> None:
        """Tell a process that takes lines that there are no more."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self) -> int:
        """The exit status, once both pipes are drained."""
        status = None
        while status is None:
            try:  # with a time limit subprocess looks again and again
                status = self._process.wait(_LOOK_EVERY_S if is_beside() else None)
            except subprocess.TimeoutExpired:
                raise_if_stopped()
        self._process.let_go()
        self._close_drained(_PATIENCE_S)
        return status

    def _close_drained(self, patience_s: float) -> None:
        """Close the pipes that were read to their end.

        A process that the worker left behind may keep them open for ever.
        """
        for thread in self._threads:
            thread.join(patience_s)
        if not any(thread.is_alive() for thread in self._threads):
            self._process.stdout.close()
            self._process.stderr.close()

    def stop(self) -> None:
        """End the process and what it started, if it still runs."""
        self._process.stop()
        if self._process.stdin is not None:
            self.end()
        self._close_drained(_LOOK_EVERY_S)


def _lines(stream) -> Iterator[str]:
    """A stream's lines; one that never ends comes in parts."""
    return iter(lambda: stream.readline(_LONGEST_LINE), "")


def how_it_ended(status: int, stderr: Sequence[str]) -> Reason:
    """Words for a process that ended badly: its signal or status, and its own last sentence."""
    lines = [line.strip() for line in stderr if line.strip()]
    # Paddle ends a long report on a crash with lines that say nothing.
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if not lines:
        return Kind.ENDED_SILENTLY(end=ending(status))
    return Kind.ENDED_SAYING(end=ending(status), last=(telling or lines)[-1][:300])


def ending(status: int) -> Reason:
    """Words for an exit status: a signal's name where it is one."""
    try:
        return Kind.ENDED_BY_SIGNAL(signal=signal.Signals(-status).name)
    except ValueError:
        return Kind.ENDED_WITH_STATUS(status=status)


def watch() -> None:
    """End this process (and its group, if it is the first of one) when its parent is gone.

    Does nothing where no Child started it.
    """
    text = os.environ.pop(_PARENT, "")  # what this process starts has another parent
    if not text.isdecimal():
        return
    descriptor = int(text)
    try:
        os.set_inheritable(descriptor, False)
    except OSError:  # an interpreter's wrapper that closes descriptors it does not know
        return
    threading.Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()


def watch_launcher() -> None:
    """End this process when that which started it is gone: a launcher, which ends with the check.

    A launcher hands on no pipe; but whom it leaves behind gets another parent.
    """
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=look, daemon=True).start()


def leave(status: int) -> None:
    """End at once: to take a framework's modules down costs as much as half of their import."""
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # the model's own code has closed it
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _end_with_parent(descriptor: int) -> None:
    try:
        while os.read(descriptor, 64):
            pass
    except OSError:
        return
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
