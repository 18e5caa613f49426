"""Forks of the caller, one for each process that a check asks for; the caller serves meanwhile.

In the caller's process, whose modules these are not to meet: standard library only, and nothing of
the workbench but this folder, extras/shared and their sentences.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from twincheck.common.system.door import to_type
from twincheck.extras.live import Kind
from twincheck.extras.shared import fork_server

_LOOK_EVERY_S = 0.2
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# A worker's module is run by a fork; all else, such as the question which frameworks there are, by
# Python itself.
ROUTES = """
def server_of(arguments):
    worker = arguments[:3] == ["-W", "ignore", "-m"] and arguments[3].startswith("twincheck.")
    return "caller" if worker else None
"""


class Hung(RuntimeError):
    """A fork that computes nothing any more, in a sentence."""


class Server(fork_server.Server):
    """Forks this process when a client asks, until what it serves has ended.

    run       what a fork does with a request
    patience  seconds in which a fork that is at work may compute nothing
    """

    def __init__(self, folder: Path, run: Callable[[dict], None], patience: float):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "caller"))
        listener.listen()
        super().__init__(listener, run)
        self.patience = patience
        self.python = fork_server.write_client(folder, sys.executable, ROUTES)
        self._seen: dict[int, tuple[float, float]] = {}  # fork -> seconds computed, until when

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def until(self, process: subprocess.Popen) -> int:
        """Serve till a process has ended; returns its status.

        Raises Hung, and ends the fork, where one neither computes nor waits to be asked.
        """
        while process.poll() is None:
            self.wait(_LOOK_EVERY_S)
            for pid, fork in list(self.forks.items()):
                if self._hangs(pid):
                    self.end(pid)
                    side = "torch" if ".torch." in fork.arguments[3] else "Paddle"
                    said = {"side": side, "seconds": self.patience, "command": to_type("new")}
                    raise Hung(Kind.SIDE_HANGS(**said))
        return process.returncode

    def _hangs(self, pid: int) -> bool:
        computed, waits = _state_of(pid)
        before, since = self._seen.get(pid, (-1.0, 0.0))
        if computed is None or computed > before or waits:
            since = time.monotonic()
        self._seen[pid] = computed or 0.0, since
        return time.monotonic() - since > self.patience


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
