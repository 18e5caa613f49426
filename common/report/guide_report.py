"""reprod_log's own report on two logs, in a process of its own, since it writes to its output."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from twincheck.common.system.checkout import PATH
from twincheck.common.system.processes import Child, environment
from twincheck.common.system.start import installed

# reprod_log's own load_info unpickles, which executes what a log's sender put in: the logs are read
# here, tensor by tensor, and compared and reported on by reprod_log.
# It imports Paddle, which takes a second, and of which this part uses nothing but the names of two
# types: they stand in, and where more is wanted, Paddle is imported after all.
_REPORT = """
import json, os, sys, types
from twincheck.common.logs.reader import read_log
from twincheck.common.system.processes import watch
watch()

class Info(dict):
    def __getitem__(self, key):
        return super().__getitem__(key)[key]

def report(logs, threshold, target, every):
    from reprod_log import ReprodDiffHelper
    helper = ReprodDiffHelper()
    keys = [[key for key in log if every or key in logs[0] and key in logs[1]] for log in logs]
    helper.compare_info(*map(Info.fromkeys, keys, logs))
    helper.report(diff_method="mean", diff_threshold=threshold, path=target)

line = sys.stdin.readline()
if not line:
    os._exit(1)
reference, candidate, *how = json.loads(line)
logs = [read_log(path) for path in (reference, candidate)]
names = sys.modules["paddle"] = types.ModuleType("paddle")
names.nn, names.Tensor = types.SimpleNamespace(Layer=object), object
try:
    report(logs, *how)
except Exception:
    for name in [name for name in sys.modules if name.split(".")[0] in ("paddle", "reprod_log")]:
        del sys.modules[name]
    report(logs, *how)
os._exit(0)
"""


class GuideReport:
    """reprod_log's own report on two logs, written by a process of its own.

    That process starts at once, and imports NumPy before there are logs.
    """

    def __init__(self):
        self.target = self._temporary = Path(os.devnull)
        self._process = None
        if importlib.util.find_spec("reprod_log") is None or not installed("paddle"):
            return
        self._process = Child(
            [sys.executable, "-W", "ignore", "-c", _REPORT],
            environment(),
            cwd=PATH,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def begin(
        self, reference: Path, candidate: Path, threshold: float, target: Path, every: bool = False
    ) -> None:
        """Let it compare two logs by the guide's rule and write the report to `target`.

        every  all their keys, as a reader of the two files would: where one log alone has a key,
               reprod_log refuses them; else those that they have in common
        """
        self.target = target
        self._temporary = target.with_name(f".{target.name}.{os.getpid()}")
        if self._process is not None:
            logs = str(reference), str(candidate)
            line = json.dumps([*logs, threshold, str(self._temporary), every])
            with suppress(BrokenPipeError):  # it has ended, which `wait` finds
                with self._process.stdin as stdin:
                    stdin.write(f"{line}\n".encode())

    def wait(self) -> bool | None:
        """reprod_log's verdict; None where it could not be asked or did not finish."""
        if self._process is None or self._process.wait() or not self._temporary.is_file():
            return None
        text = self._temporary.read_text()
        os.replace(self._temporary, self.target)
        return re.search(r"diff check passed\s*$", text) is not None

    def stop(self) -> None:
        """End the process, whether it has reported or not."""
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.stop()
            if self._temporary.is_file():
                self._temporary.unlink()


class GuideReports:
    """The reports of several models, of which the next one's process is always started ahead."""

    def __init__(self, count: int):
        """`count` reports will be asked for at most."""
        self._left = count
        self._ahead: GuideReport | None = None

    def __enter__(self) -> "GuideReports":
        self.next()
        return self

    def __exit__(self, *error: object) -> None:
        if self._ahead is not None:
            self._ahead.stop()

    def next(self) -> GuideReport | None:
        """A report to begin; None where none are wanted."""
        report, self._ahead = self._ahead, GuideReport() if self._left else None
        self._left = max(0, self._left - 1)
        return report
