"""Starts the twin scripts, each in a process of its own, and reprod_log's report in another.

The check's process imports neither framework.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from common.interpreters import find_interpreter, installed
from common.pairs import ROOT
from common.parent import Child
from common.provenance import ON_GPU

_KEPT_LINES = 500  # of what a twin says on standard error
_LONGEST_LINE = 1 << 16
_PATIENCE_S = 5.0

_VARIABLES: dict[str, dict[str, str]] = {}  # a Python's path -> what its twins need


def environment(device: str = "cpu") -> dict[str, str]:
    """The environment of a twin: the user's own, and what makes Paddle fast on these processors."""
    values = dict(os.environ)
    if device == "gpu":
        values = ON_GPU | values
    values["PYTHONPATH"] = str(ROOT)
    values["PYTHONUNBUFFERED"] = "1"
    values.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    if processor_is_amd():
        values.setdefault("MKL_DEBUG_CPU_TYPE", "5")
    return values


def processor_is_amd() -> bool:
    """True on AMD, where Paddle's MKL takes its slow path unless MKL_DEBUG_CPU_TYPE is 5."""
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


class Process:
    """A twin script that is running; its progress lines go to `on_progress` as they come."""

    def __init__(
        self,
        command: Sequence[str],
        on_progress: Callable[[str], None],
        threads: int | None = None,
        device: str = "cpu",
    ):
        values = environment(device)
        if threads is not None and "OMP_NUM_THREADS" not in os.environ:
            values["OMP_NUM_THREADS"] = str(threads)
        for name, value in _VARIABLES.get(command[0], {}).items():
            values[name] = ":".join(filter(None, [value, values.get(name)]))
        self.stderr: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = Child(
            command,
            values,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._threads = [
            threading.Thread(target=self._read_stdout, args=(on_progress,), daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_stdout(self, on_progress: Callable[[str], None]) -> None:
        for line in _lines(self._process.stdout):
            if line.startswith("@progress "):
                on_progress(line[len("@progress ") :].strip())

    def _read_stderr(self) -> None:
        for line in _lines(self._process.stderr):
            self.stderr.append(line.rstrip("\n"))

    def wait(self) -> int:
        """The exit status, once both pipes are drained."""
        status = self._process.wait()
        self._process.let_go()
        for thread in self._threads:
            # A process that the twin left behind may hold its pipes for ever.
            thread.join(_PATIENCE_S)
        if not any(thread.is_alive() for thread in self._threads):
            self._process.stdout.close()
            self._process.stderr.close()
        return status

    def stop(self) -> None:
        """End the process and what it started, if it still runs."""
        self._process.stop(_PATIENCE_S)


def _lines(stream) -> Iterator[str]:
    """A stream's lines; one that never ends comes in parts."""
    return iter(lambda: stream.readline(_LONGEST_LINE), "")


def how_it_ended(status: int, stderr: Sequence[str]) -> str:
    """Words for a process that ended badly: its signal or status, and its own last sentence."""
    try:
        how = f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        how = f"ended with status {status}"
    lines = [line.strip() for line in stderr if line.strip()]
    # Paddle ends a long report on a crash with lines that say nothing.
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    last = (telling or lines or ["no message"])[-1]
    return f"{how}: {last[:300]}"


def interpreter(side: str, given: str | None) -> str:
    """The Python that runs a side (common/interpreters.py), with what it needs remembered."""
    found = find_interpreter(side, given, environment(), ROOT)
    _VARIABLES[found.path] = found.variables or {}
    return found.path


# reprod_log's own load_info unpickles, which executes what a log's sender put in: the logs are read
# here, tensor by tensor, and compared and reported on by reprod_log.
_REPORT = """
import sys
from common.logs import read_log
from common.parent import watch
watch()
from reprod_log import ReprodDiffHelper

class Common(dict):
    def __getitem__(self, key):
        return super().__getitem__(key)[key]

helper = ReprodDiffHelper()
logs = [read_log(path) for path in sys.argv[1:3]]
common = [key for key in logs[0] if key in logs[1]]
helper.compare_info(*(Common.fromkeys(common, log) for log in logs))
helper.report(diff_method="mean", diff_threshold=float(sys.argv[3]), path=sys.argv[4])
"""


class GuideReport:
    """reprod_log's own report on two logs, written by a process of its own."""

    def __init__(self, reference: Path, candidate: Path, threshold: float, target: Path):
        self.target = target
        self._temporary = target.with_name(f".{target.name}.{os.getpid()}")
        self._process = None
        if importlib.util.find_spec("reprod_log") is None or not installed("paddle"):
            return
        self._process = Child(
            [sys.executable, "-W", "ignore", "-c", _REPORT]
            + [str(reference), str(candidate), str(threshold), str(self._temporary)],
            environment(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self) -> bool | None:
        """reprod_log's verdict; None where it could not be asked or did not finish."""
        if self._process is None:
            return None
        try:
            status = self._process.wait()
        finally:
            self._process.stop()
        if status != 0 or not self._temporary.is_file():
            self._temporary.unlink(missing_ok=True)
            return None
        text = self._temporary.read_text()
        os.replace(self._temporary, self.target)
        return re.search(r"diff check passed\s*$", text) is not None
