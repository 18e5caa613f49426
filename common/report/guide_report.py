"""reprod_log's own report on two logs.

reprod_log's own load_info unpickles, which executes what a log's sender put in: the logs are read
here, tensor by tensor, and compared and reported on by reprod_log.
"""

import io
import logging
import re
import sys
import threading
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

from twincheck.common.logs.reader import Log, read_log
from twincheck.common.system.files import whole

_ONE_AT_A_TIME = threading.Lock()  # its logger is the process's, and so would get both reports


class _Info(dict):
    """A log as the dict of arrays that reprod_log takes: each is read when it is asked for."""

    def __init__(self, log: Log, keys: list[str]):
        super().__init__(dict.fromkeys(keys))
        self._log = log

    def __getitem__(self, key: str):
        return self._log[key]


def guide_report(
    reference: Path, candidate: Path, threshold: float, target: Path, every: bool = False
) -> bool | None:
    """Let reprod_log compare two logs by the guide's rule and write its report to `target`.

    every  all their keys, as a reader of the two files would: where one log alone has a key,
           reprod_log refuses them; else those that they have in common

    Returns its verdict; None where it could not be asked, or compares no such logs.
    """
    try:
        with _ONE_AT_A_TIME, ExitStack() as stack, whole(target) as temporary:
            logs = [stack.enter_context(read_log(path)) for path in (reference, candidate)]
            helper = stack.enter_context(_quiet()).ReprodDiffHelper()
            keys = [[k for k in log if every or k in logs[0] and k in logs[1]] for log in logs]
            helper.compare_info(*map(_Info, logs, keys))
            helper.report(diff_method="mean", diff_threshold=threshold, path=str(temporary))
    except Exception:
        return None
    return re.search(r"diff check passed\s*$", target.read_text()) is not None


@contextmanager
def _quiet():
    """Give reprod_log, which prints what it reports, and leaves its handlers to the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with redirect_stdout(io.StringIO()):
        try:
            yield _imported()
        finally:
            for handler in root.handlers[len(handlers) :]:
                handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)


@cache
def _imported() -> ModuleType:
    """Import reprod_log, with a stand-in for Paddle where that is not there already.

    Paddle takes a second to import, and this part uses nothing of it but the names of two types.
    """
    stands_in = "paddle" not in sys.modules
    if stands_in:
        names = sys.modules["paddle"] = ModuleType("paddle")
        names.nn, names.Tensor = SimpleNamespace(Layer=object), object
    try:
        import reprod_log
    finally:
        if stands_in:
            del sys.modules["paddle"]
    return reprod_log
