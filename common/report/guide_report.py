"""reprod_log's own report on two logs, in a process of its own: it imports Paddle."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from common.system.checkout import ROOT
from common.system.interpreters import installed
from common.system.processes import Child, environment

# reprod_log's own load_info unpickles, which executes what a log's sender put in: the logs are read
# here, tensor by tensor, and compared and reported on by reprod_log.
_REPORT = """
import sys
from common.logs.reader import read_log
from common.system.processes import watch
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
