"""Warm interpreters: the tests and the planted faults start many workers, and most of the time of a
short one goes into importing its framework.

    with Interpreters() as warm:
        subprocess.run([warm.python, "-W", "ignore", "-m", "step1_forward.torch.forward", ...])

A server (server.py) for each side imports its framework and NumPy, and nothing of the workbench; it
forks for each worker.  A third, for the checks themselves, imports what they take from elsewhere.
`python` is an executable (extras/shared/fork_client.py) that stands for the Python that runs this:
it hands what it is asked to run to a server (routes.py) and ends as the forked process ends; what
no server can do just as well, it has the real Python do.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from twincheck.common.system.processes import environment
from twincheck.extras.shared.fork_server import write_client

HERE = Path(__file__).resolve().parent
ROUTES = HERE / "routes.py"
# What a server imports before it forks; the workers' is what each imports first, and what torch
# imports when its first optimizer is made: as much again as torch itself.
_TORCH = ("torch", "torch._dynamo")
_CHECK = (
    *("numpy", "numpy.ma", "numpy.random"),
    *("rich.console", "rich.table", "rich.progress", "rich._emoji_codes"),
    # Of Python's own what every check imports.
    *("argparse", "concurrent.futures.thread", "csv", "difflib", "email.parser", "gettext", "gzip"),
    *("hashlib", "importlib.metadata", "importlib.resources", "importlib.util", "json", "logging"),
    *("pathlib", "pickletools", "shlex", "shutil", "subprocess", "tempfile", "traceback"),
    *("urllib.parse", "zipfile"),
)
IMPORTS = {
    "torch": ("numpy", *_TORCH),
    "paddle": ("numpy", "paddle"),
    "both": ("numpy", "paddle", *_TORCH),
    "check": _CHECK,
    # Steps 2 and 5; a training's curves are drawn.
    "scores": _CHECK
    + ("scipy.stats", "matplotlib.pyplot", "matplotlib.backends.backend_agg")
    + ("sklearn.datasets", "sklearn.metrics", "sklearn.model_selection"),
    # The program that tests hold the Reformer against.
    "reference": ("numpy", "torch", "transformers.models.reformer.modeling_reformer"),
}
_WORKERS = ("torch", "paddle", "both")
_CHECKS = ("check", "scores")
_PATIENCE_S = 10.0


class Interpreters:
    """The servers, and the executable that stands for this Python.

    cold    start no server: `python` is the real Python, as it is anywhere but on Linux
    python  the Python that it stands for
    names   of the servers; by default all of IMPORTS
    """

    def __init__(
        self, cold: bool = False, python: str = sys.executable, names: Iterable[str] | None = None
    ):
        self.real = self.python = python
        self.folder: Path | None = None
        self._servers: list[subprocess.Popen] = []
        if cold or sys.platform != "linux":  # elsewhere one may not bear a fork
            return
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A shell's background job ignores Ctrl-C, what it starts does too, and no server runs
            # what does: all of it would be cold.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.folder = Path(tempfile.mkdtemp(prefix="warm-"))
        try:
            self.python = write_client(self.folder, python, ROUTES.read_text())
            for name in IMPORTS if names is None else names:
                self._start(name)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str) -> None:
        """Start a server; it imports nothing until somebody asks."""
        values = environment() if name in _WORKERS else dict(os.environ)
        values.pop("PYTHONPATH", None)
        options = [] if name in _CHECKS else ["-W", "ignore"]
        client = self.python if name in _CHECKS else ""  # what a check starts its workers by
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / name))
            listener.listen(64)
            command = [self.real, *options, str(HERE / "server.py")]
            command += [str(listener.fileno()), client, *IMPORTS[name]]
            server = subprocess.Popen(
                command,
                env=values,
                stdin=subprocess.PIPE,  # its end tells the server that this process is gone
                stdout=subprocess.DEVNULL,
                pass_fds=(listener.fileno(),),
            )
        self._servers.append(server)

    def close(self) -> None:
        """End the servers and what they still run."""
        for server in self._servers:
            server.stdin.close()
        for server in self._servers:
            try:
                server.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self._servers.clear()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder, self.python = None, self.real

    def cpu_seconds(self) -> float:
        """What the servers have computed, with the processes that have ended."""
        ticks = 0
        for server in self._servers:
            told = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, told[11:15]))  # user, system, and those of the children
        return ticks / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "Interpreters":
        return self

    def __exit__(self, *exception) -> None:
        self.close()
