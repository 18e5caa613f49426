"""Forks of the caller, one for each process that a check asks for; the caller serves meanwhile.

In the caller's process, whose modules these are not to meet: standard library only, and nothing of
the workbench but this folder and its sentences.
"""

import atexit
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.system.door import to_type
from twincheck.extras.live import Kind

HERE = Path(__file__).resolve().parent
_LOOK_EVERY_S = 0.2
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_LONGEST_REQUEST = 1 << 20


class Hung(RuntimeError):
    """A fork that computes nothing any more, in a sentence."""


@dataclass
class _Fork:
    """A fork that runs, and what is known of it."""

    channel: socket.socket  # to the client that stands for it
    module: str
    computed: float = 0.0  # seconds of a processor, when it was last looked at
    idle_since: float = field(default_factory=time.monotonic)


class Server:
    """Forks this process when a client asks, until what it serves has ended.

    run       what a fork does with a request; gives its exit status
    patience  seconds in which a fork that is at work may compute nothing
    """

    def __init__(self, folder: Path, run: Callable[[Mapping], int], patience: float):
        self.run, self.patience = run, patience
        self.path = str(folder / "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._forks: dict[int, _Fork] = {}  # by their numbers
        self.python = str(folder / "python")
        words = [sys.executable, "-IS", str(HERE / "client.py"), self.path, sys.executable]
        # A script's first line cannot hold a path with a space.
        text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
        with open(self.python, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.python, 0o700)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        for number in list(self._forks):
            self._end(number)
        self._listener.close()

    def until(self, process: subprocess.Popen) -> int:
        """Serve till a process has ended; returns its status.

        Raises Hung, and ends the process, where a fork is stuck.
        """
        while process.poll() is None:
            channels = [self._listener, *(fork.channel for fork in self._forks.values())]
            ready, _, _ = select.select(channels, [], [], _LOOK_EVERY_S)
            if self._listener in ready:
                self._answer(process)
            self._look_after(set(ready))
        return process.returncode

    def _answer(self, process: subprocess.Popen) -> None:
        channel, _ = self._listener.accept()
        said, streams, _, _ = socket.recv_fds(channel, _LONGEST_REQUEST, 3)
        while not said.endswith(b"\n"):
            said += channel.recv(_LONGEST_REQUEST)
        asked = json.loads(said)
        sys.stdout.flush()
        sys.stderr.flush()
        number = os.fork()
        if number:
            for stream in streams:
                os.close(stream)
            self._forks[number] = _Fork(channel, asked["module"])
            return
        status = 1
        try:
            self._become(asked, streams)
            status = self.run(asked)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _become(self, asked: Mapping, streams: list[int]) -> None:
        """In the fork: be nothing of the caller's any more but its memory."""
        atexit._clear()  # what the caller is to do at its end
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        self._listener.close()
        for fork in self._forks.values():
            fork.channel.close()
        with suppress(OSError):  # the check ends whole groups
            os.setpgid(0, asked["group"])
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(asked["environment"])
        # A notebook has put others in their place.
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            stream = open(number, "w" if number else "r", closefd=False, errors="replace")  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    def _look_after(self, ready: set) -> None:
        """Tell clients of forks that have ended; end those whose client is gone, or that hang."""
        for number, fork in list(self._forks.items()):
            ended, status = os.waitpid(number, os.WNOHANG)
            if ended:
                with suppress(OSError):
                    fork.channel.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                fork.channel.close()
                del self._forks[number]
            elif fork.channel in ready:  # a client says nothing: it has ended
                self._end(number)
            elif self._hangs(number, fork):
                self._end(number)
                side = "torch" if ".torch." in fork.module else "Paddle"
                said = {"side": side, "seconds": self.patience, "command": to_type("new")}
                raise Hung(Kind.SIDE_HANGS(**said))

    def _hangs(self, number: int, fork: _Fork) -> bool:
        """True for a fork that neither computes nor waits to be asked, for too long."""
        computed, waits = _state_of(number)
        if computed is None or computed > fork.computed or waits:
            fork.computed, fork.idle_since = computed or 0.0, time.monotonic()
        return time.monotonic() - fork.idle_since > self.patience

    def _end(self, number: int) -> None:
        fork = self._forks.pop(number)
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
        fork.channel.close()


def _state_of(number: int) -> tuple[float | None, bool]:
    """(seconds computed by a process and its threads, whether it reads from a pipe); None unknown.

    Linux alone says so.  A worker that waits for its next request sleeps in the read of a pipe; one
    that waits for a lock sleeps elsewhere.
    """
    try:
        told = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        wait = Path(f"/proc/{number}/wchan").read_text()
        call = Path(f"/proc/{number}/syscall").read_text().split()
    except OSError:
        return None, False
    reads = "pipe" in wait or call[:1] in (["0"], ["63"])  # x86-64's number, ARM's
    return (int(told[11]) + int(told[12])) / _TICKS, reads
