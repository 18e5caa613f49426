"""A process that forks for each client that asks (fork_client.py), and tells it how the fork ended.

Of the standard library alone: a process that serves has what its forks are to find, and no more.
"""

import atexit
import io
import marshal
import os
import select
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from socket import socket

_PATIENCE_S = 20.0
_LONGEST = 1 << 22
_NAMES = ("arguments", "folder", "environment", "inherited", "session", "umask")


def write_client(folder: Path, python: str, routes: str) -> str:
    """Write the executable that stands for a Python into the folder of the servers' sockets.

    routes   source of server_of(arguments), as fork_client.py has it

    Returns its path.  What no server there runs, that Python runs.
    """
    (folder / "real").write_text(python)
    program = folder / "client.py"
    program.write_text(routes + Path(__file__).with_name("fork_client.py").read_text())
    # A script's first line cannot hold a path with a space.
    words = shlex.join([sys._base_executable, "-IS", str(program)])
    (folder / "python").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (folder / "python").chmod(0o700)
    return str(folder / "python")


class Fork:
    """A fork that runs: what it was asked, and who waits for it."""

    def __init__(self, pid: int, connection: socket, arguments: list[str]):
        self.connection, self.arguments = connection, arguments
        self.ended = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def close(self) -> None:
        """Close its files."""
        self.connection.close()
        if self.ended is not None:
            os.close(self.ended)


class Server:
    """Forks this process for clients.

    run   what a fork does with a request: a dict of _NAMES, its environment and folder taken on
    """

    def __init__(self, listener: socket, run: Callable[[dict], None]):
        self.listener, self.run = listener, run
        self.forks: dict[int, Fork] = {}

    def accepts(self, request: dict) -> bool:
        """Whether a fork is as good as a process of its own; else the client runs that."""
        return True

    def wait(self, timeout_s: float | None, others: Iterable[int] = ()) -> list:
        """Wait till somebody asks, a fork or a client ends, or one of the other files has to say.

        Returns what has.
        """
        channels = [self.listener, *others]
        for fork in self.forks.values():
            channels += [fork.connection, *([] if fork.ended is None else [fork.ended])]
        ready = select.select(channels, [], [], timeout_s)[0]
        for pid, fork in list(self.forks.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                _tell(fork.connection, status)
                self.forks.pop(pid).close()
            elif fork.connection in ready:  # a client says nothing more: it is gone
                self.end(pid)
        if self.listener in ready:
            self._answer()
        return ready

    def end(self, pid: int) -> None:
        """End a fork and its group."""
        fork = self.forks.pop(pid)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        fork.close()

    def close(self) -> None:
        """End all forks, and serve no more."""
        for pid in list(self.forks):
            self.end(pid)
        self.listener.close()

    def _answer(self) -> None:
        connection, _ = self.listener.accept()
        files: list[int] = []
        request = _read(connection, files)
        if request is None or not self.accepts(request):
            _tell(connection, 0)
            connection.close()
            _close(files)
            return
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            connection.close()
            self._become(request, files)
            _end(self.run, request)
        with suppress(OSError):
            os.setpgid(pid, pid)  # whoever is first; the fork does so too
        self.forks[pid] = Fork(pid, connection, request["arguments"])
        _tell(connection, pid)
        _close(files)

    def _become(self, request: dict, files: list[int]) -> None:
        """In the fork: be nothing of a server any more, and what the client is."""
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(-1)
        os.setpgid(0, 0)
        self.listener.close()
        for fork in self.forks.values():
            fork.close()
        for standard, number in enumerate(files[:3]):
            os.dup2(number, standard)
        _close(files[:3])
        for variable, number in zip(request["inherited"], files[3:], strict=True):
            os.set_inheritable(number, True)
            request["environment"][variable] = str(number)
        os.environ.clear()
        os.environ.update(request["environment"])
        _open_streams(bool(os.environ.get("PYTHONUNBUFFERED")))
        os.chdir(request["folder"])
        os.umask(request["umask"])


def _read(connection: socket, files: list[int]) -> dict | None:
    """Return a client's request, and note the open files that came with it; None for another's."""
    connection.settimeout(_PATIENCE_S)
    content, size = b"", 4
    try:
        while len(content) < size:
            more, rights, *_ = connection.recvmsg(1 << 16, 1 << 10)
            for _, _, data in rights:
                numbers = [data[i : i + 4] for i in range(0, len(data), 4)]
                files += [int.from_bytes(number, sys.byteorder) for number in numbers]
            content += more
            if len(content) >= 4 and size == 4:
                size = 4 + int.from_bytes(content[:4], "little")
            if not more or size > _LONGEST:
                return None
        return dict(zip(_NAMES, marshal.loads(content[4:]), strict=True))
    except (OSError, ValueError, EOFError):
        return None


def _tell(connection: socket, number: int) -> None:
    with suppress(OSError):  # it may be gone
        connection.sendall(number.to_bytes(8, "little"))


def _close(files: list[int]) -> None:
    for number in files:
        os.close(number)


def _open_streams(unbuffered: bool) -> None:
    """Make standard input, output and error for what they are now, as Python does at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        former = getattr(sys, f"__{name}__")  # a notebook has put another in its place
        raw = number > 0 and unbuffered
        stream = open(number, "wb" if number else "rb", 0 if raw else -1, closefd=False)
        getattr(stream, "raw", stream).name = f"<{name}>"
        text = io.TextIOWrapper(
            stream,
            former.encoding if former else "utf-8",
            former.errors if former else "replace",
            newline="\n" if number else None,
            line_buffering=not raw and (stream.isatty() or number == 2),
            write_through=unbuffered,
        )
        text.mode = "w" if number else "r"
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _end(run: Callable[[dict], None], request: dict) -> None:
    """Run a request and end as Python does, but for taking the frameworks apart: that is slow."""
    status = 0
    try:
        run(request)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if not isinstance(error.code, int | None):
            print(error.code, file=sys.stderr)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except BaseException:  # what Python complains of then
        status = 120
    os._exit(status & 0xFF)
