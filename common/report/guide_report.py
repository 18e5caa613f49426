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
from contextlib import suppress
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

answers = os.fdopen(os.dup(1), "w")
with open(os.devnull, "wb") as nothing:
    os.dup2(nothing.fileno(), 1)
names = sys.modules["paddle"] = types.ModuleType("paddle")
names.nn, names.Tensor = types.SimpleNamespace(Layer=object), object
with suppress(Exception):
    import reprod_log
for line in sys.stdin:
    reporting = os.fork()  # reprod_log's logger goes on writing into the files that it had before
    if reporting:
        os.waitpid(reporting, 0)
        print(file=answers, flush=True)
        continue
    reference, candidate, *how = json.loads(line)
    logs = [read_log(path) for path in (reference, candidate)]
    try:
        report(logs, *how)
    except Exception:
        stood_in = {"paddle", "reprod_log"}
        for name in [name for name in sys.modules if name.split(".")[0] in stood_in]:
            del sys.modules[name]
        report(logs, *how)
    os._exit(0)
os._exit(0)
"""


class GuideReport:
    """reprod_log's own report on two logs, of one model after another, by a process of its own.

    That process starts at once, and imports NumPy before there are logs.  A context manager.
    """

    def __init__(self):
        self.target: Path | None = None  # of what it was asked last
        self._temporary: Path | None = None  # where it writes what it owes
        installed_both = importlib.util.find_spec("reprod_log") and installed("paddle")
        self._process = self._started() if installed_both else None

    def _started(self) -> Child:
        return Child(
            [sys.executable, "-W", "ignore", "-c", _REPORT],
            environment(),
            cwd=PATH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> "GuideReport":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def begin(
        self, reference: Path, candidate: Path, threshold: float, target: Path, every: bool = False
    ) -> None:
        """Let it compare two logs by the guide's rule and write the report to `target`.

        every  all their keys, as a reader of the two files would: where one log alone has a key,
               reprod_log refuses them; else those that they have in common
        """
        if self._temporary is not None:  # who asked for it has met an error meanwhile
            self._process.stdout.readline()
            self._temporary.unlink(missing_ok=True)
            self._temporary = None
        self.target = target
        if self._process is None:
            return
        if self._process.poll() is not None:
            self._process.stop()
            self._process = self._started()
        self._temporary = target.with_name(f".{target.name}.{os.getpid()}")
        logs = str(reference), str(candidate)
        line = json.dumps([*logs, threshold, str(self._temporary), every])
        with suppress(BrokenPipeError):  # it has ended, which `wait` finds
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def wait(self) -> bool | None:
        """reprod_log's verdict; None where it could not be asked or did not finish."""
        if self._temporary is None:
            return None
        told = self._process.stdout.readline()
        made, self._temporary = self._temporary, None
        if not (told and made.is_file()):
            return None
        text = made.read_text()
        os.replace(made, self.target)
        return re.search(r"diff check passed\s*$", text) is not None

    def stop(self) -> None:
        """End the process, whether it has reported or not."""
        if self._process is None:
            return
        if self._temporary is None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait()
        self._process.stop()
        self._process.stdout.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
