"""A task in the process that runs it: what it starts ends with it, and what it keeps is used again.

    status, seconds = run([sys.executable, "x.py"], output=file)     a program
    with kept(key, make) as thing:                                   what the next task uses too

The process is one of joblib's on this machine, a worker of a cluster, or the caller's own
(extras/shared/jobs.py).  However it ends, killed or not, a keeper ends the programs that still run.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from twincheck.common.system.processes import OWN_GROUP, watch_launcher
from twincheck.common.system.signals import put_off

IDLE_S = 20.0  # after which a cluster's worker gives back what it has kept
_PATIENCE_S = 5.0  # between asking a program to end and ending it
_LOOK_EVERY_S = 0.5
# What tells libraries how to compute; joblib and dask set some of it in the processes they start.
_SETTINGS = ("ATEN_", "DNNL_", "KMP_", "MALLOC_", "MKL_", "OMP_", "ONEDNN_")
_THREADS = "_NUM_THREADS"
# A program begins once the keeper knows it, and never where this process is killed before that.
_ONCE_TOLD = ("/bin/sh", "-c", 'read -r told && exec "$@" </dev/null', "sh")
_here = threading.local()  # `wanted`: whether somebody waits for the task of this thread


class Unwanted(Exception):
    """Nobody waits for this task any more: the program that it ran was ended."""


# ---- what a task is called by -------------------------------------------------------------------


def call(content: bytes, environment: Mapping[str, str]) -> object:
    """Run a task that was sent as a pickle of (function, argument)."""
    _here.wanted = _asked_for()
    if _here.wanted is not None:
        _settle_in_a_cluster(environment)
        _idle.cancel()
    try:
        work, task = pickle.loads(content)
        return work(task)
    finally:
        if _here.wanted is not None:
            _idle.start()


def _asked_for() -> Callable[[], bool] | None:
    """In a worker of a cluster: what says whether this task is still asked for."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # it is imported, and this is no worker
        return None
    task = worker.state.tasks[worker.get_current_task()]
    return lambda: task.state != "cancelled"


def _settle_in_a_cluster(environment: Mapping[str, str]) -> None:
    """Have what tells libraries how to compute be as it is where the tasks come from."""
    wanted = settings(environment)
    for name in settings(os.environ).keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell libraries how to compute."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_SETTINGS) or name.endswith(_THREADS)
    }


def begin(parent: int, environment: Mapping[str, str]) -> None:
    """Begin one of joblib's processes: it ends with its parent, whose environment it has."""
    if os.getppid() != parent:
        os._exit(1)
    watch_launcher()
    # Ctrl-C reaches it too; the parent ends it.  Not ignored, or so would what it starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    os.environ.clear()
    os.environ.update(environment)


# ---- what is kept from task to task -------------------------------------------------------------

_things: dict[Hashable, list[Any]] = {}
_common: dict[Hashable, Any] = {}
_lock = threading.Lock()


@contextmanager
def kept(key: Hashable, make: Callable[[], Any]) -> Iterator[Any]:
    """Something with a close() that one task at a time has; made where none is idle."""
    with _lock:
        waiting = _things.setdefault(key, [])
        thing = waiting.pop() if waiting else None
    thing = make() if thing is None else thing
    try:
        yield thing
    except BaseException:
        thing.close()
        raise
    with _lock:
        _things.setdefault(key, []).append(thing)


def common(key: Hashable, make: Callable[[], Any]) -> Any:
    """Something with a close() that all tasks of this process have together."""
    with _lock:
        if key not in _common:
            _common[key] = make()
        return _common[key]


def close() -> None:
    """Close what is kept."""
    with _lock:
        things = [thing for waiting in _things.values() for thing in waiting]
        things += _common.values()
        _things.clear()
        _common.clear()
    for thing in things:
        thing.close()


atexit.register(close)


class _Idle:
    """Closes what is kept once no task has run for a while: who sent them may be gone."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.timer: threading.Timer | None = None

    def cancel(self) -> None:
        """A task begins."""
        with self.lock:
            self.running += 1
            if self.timer is not None:
                self.timer.cancel()

    def start(self) -> None:
        """A task has ended."""
        with self.lock:
            self.running -= 1
            if not self.running:
                self.timer = threading.Timer(IDLE_S, self._close)
                self.timer.daemon = True
                self.timer.start()

    def _close(self) -> None:
        with self.lock:
            if not self.running:
                close()


_idle = _Idle()

# ---- programs -----------------------------------------------------------------------------------


def run(
    command: Sequence[str],
    output: IO,
    errors: IO | None = None,
    timeout_s: float | None = None,
    **options: Any,
) -> tuple[int, float]:
    """Run a program in a process group of its own: its status, and the seconds that it computed.

    errors      where its standard error goes; by default to `output` too
    timeout_s   after which it is ended, and subprocess.TimeoutExpired is raised
    options     env and cwd, as subprocess takes them

    Raises Unwanted where nobody waits for the task any more.
    """
    wanted = getattr(_here, "wanted", None)
    if wanted is not None and not wanted():
        raise Unwanted(command[0])
    streams = {"stdin": subprocess.PIPE, "stdout": output, "stderr": errors or output}
    ended = threading.Event()
    why: list[Exception] = []
    child = None

    def look() -> None:
        until = time.monotonic() + (timeout_s or float("inf"))
        while not ended.wait(_LOOK_EVERY_S):
            if time.monotonic() > until:
                why.append(subprocess.TimeoutExpired(list(command), timeout_s))
            elif wanted is not None and not wanted():
                why.append(Unwanted(command[0]))
            if why:
                _end_group(child.pid, ended)
                return

    try:
        with put_off():  # a program that was started is always known
            keeper.start()
            child = subprocess.Popen([*_ONCE_TOLD, *command], **streams, **OWN_GROUP, **options)
            keeper.tell("+", child.pid)
            with suppress(OSError), child.stdin:  # somebody has killed it
                child.stdin.write(b"\n")
        if wanted is not None or timeout_s is not None:
            threading.Thread(target=look, daemon=True).start()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:  # Ctrl-C
        if child is not None:
            _end_group(child.pid, ended, child)
        raise
    finally:
        ended.set()
        if child is not None:
            keeper.tell("-", child.pid)
    if why:
        raise why[0]
    return child.returncode, usage.ru_utime + usage.ru_stime


def captured(
    command: Sequence[str], timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess:
    """Run a program as `run` does; with what it has said."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status, _ = run(command, output, errors, timeout, **options)
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(list(command), status, *said)


def _end_group(pid: int, ended: threading.Event, child: subprocess.Popen | None = None) -> None:
    """Ask a group to end, and end it; `child` where this thread has to wait for it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        if child is None:
            ended.wait(_PATIENCE_S)
        else:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_PATIENCE_S)


# It reads which groups run, and when its standard input ends, so do they.
_KEEPER = f"""
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
def tell(number):
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)
tell(signal.SIGTERM)
until = time.monotonic() + {_PATIENCE_S}
while groups and time.monotonic() < until:
    time.sleep(0.05)
    tell(0)
tell(signal.SIGKILL)
"""


class _Keeper:
    """A process beside this one that ends its programs when this one is gone."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it, where it does not run yet."""
        with self.lock:
            if self.process is None:
                self.process = subprocess.Popen(
                    [sys.executable, "-IS", "-c", _KEEPER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                    bufsize=1,
                    **OWN_GROUP,
                )
                atexit.register(self.close)

    def tell(self, sign: str, group: int) -> None:
        """A group runs (+), or has ended (-)."""
        with self.lock, suppress(OSError):  # somebody has killed it
            self.process.stdin.write(f"{sign}{group}\n")

    def close(self) -> None:
        """Let it end."""
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


keeper = _Keeper()
