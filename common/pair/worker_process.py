"""A side's process: started, handed its requests, and what it says where it fails.

The one place that starts a worker, for the checks, for a checkpoint's description and for the
certificate.  `python -m step1_forward.torch.forward -` takes requests as lines on standard input,
each the script that it is for and its path, and answers when the logs are there
(common/sides/worker.py).  So it can import its framework before there is anything to run, and
answers a further request, or another step's, without importing it again.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.pair.request import (
    FROM_STDIN,
    RunRequest,
    device_of,
    error_file,
    rank_folder,
)
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json
from twincheck.common.system.processes import Process, Told, ending, how_it_ended
from twincheck.common.system.reasons import Kind, Reason, is_of, read_reason

_FAILED = 2  # the status of a worker that has written why it failed


@dataclass(frozen=True)
class Failure:
    """The failure of a worker: its reason, its traceback, and whose it is."""

    reason: str  # a Reason, or the text of what has none
    traceback: str
    certificate: dict | None = None  # of weights that do not fit: what belongs to what
    ours: bool = False  # it is the workbench's own code that failed
    side: str = ""  # whose worker it was
    crashed_at: str = ""  # file:line of the model that raised an exception

    @property
    def sentence(self) -> str:
        """The reason as text."""
        return str(self.reason)


class WorkerProcess:
    """One side's process, which answers requests in their order until it is told to end.

    module       the script of what is asked from now on, such as
                 twincheck.step1_forward.torch.forward; the process is started with the first
    on_progress  is called with each line of progress; it may be replaced, as the module may
    threads      of the framework, unless the user's environment says otherwise
    side         which of the two sides it is, where its framework is not that one's
    """

    def __init__(
        self,
        python: str,
        module: str,
        on_progress: Callable[[Told], None] | None = None,
        device: str = "cpu",
        threads: int | None = None,
        side: str = "",
    ):
        self.side = side or _side(module)
        self.python = python
        self.module = self._first = module
        self.on_progress = on_progress or (lambda text: None)
        self._modules: dict[Path, str] = {}  # request -> its script
        self._asked: list[Path] = []  # the requests whose answers nobody has asked for
        self._answered: dict[Path, Failure | None] = {}  # what became of those that have one
        self.was_told_to_end = False
        own = device_of(device, self.side)
        self._told = lambda text: self.on_progress(text), threads, own
        self._process = self._started()

    def _started(self) -> Process:
        command = [self.python, "-W", "ignore", "-m", self._first, FROM_STDIN]
        return Process(command, *self._told, asks=True)

    def ask(self, request: RunRequest, path: Path) -> None:
        """Write a request to `path` and hand it over; what it makes goes into the same folder."""
        request.of_side(self.side).write(path)
        self.hand_over(path)

    def hand_over(self, path: Path) -> None:
        """Hand over a request that was written to `path`."""
        if self._process.has_ended and not self._owed:
            self._process = self._started()
        self._answered.pop(path, None)
        self._asked.append(path)
        self._modules[path] = self.module
        self._hand_over(path)

    def _hand_over(self, path: Path) -> None:
        self._process.ask(json.dumps([self._modules[path], str(path)]))

    @property
    def _owed(self) -> list[Path]:
        """The requests that have no answer yet, the oldest first."""
        return [path for path in self._asked if path not in self._answered]

    def failure(self, path: Path | None = None) -> Failure | None:
        """Wait for a request's answer; why it failed, None where it did not.

        path  where the request was written; by default the oldest that nobody has asked for
        """
        path = path or self._asked[0]
        while path not in self._answered:
            self._next(self._owed[0])
        if path in self._asked:
            self._asked.remove(path)
        return self._answered[path]

    def finish(self, path: Path | None = None) -> None:
        """Wait for a request's answer, as `failure`; raises UserError with its sentence."""
        failure = self.failure(path)
        if failure is not None:
            raise UserError(failure.sentence)

    def _next(self, path: Path) -> None:
        """Wait for the process's next answer, which is that to the request at `path`."""
        status = self._process.answer()
        failure = None if status == 0 else _written(path.parent, self.side)
        unexplained = status != 0 and failure is None
        if unexplained:
            self._process.end()
            failure = _how_it_ended(self._process, self.side, self.python)
        self._answered[path] = failure
        if not unexplained and status is not None:
            return
        # The process is gone.  What else was asked for in that folder has failed too: it would end
        # as this one did.  A new one has the requests of other folders.
        self._process.stop()
        same = (other for other in self._owed if other.parent == path.parent)
        self._answered |= dict.fromkeys(same, failure)
        if not self._owed:
            return
        self._process = self._started()
        for other in self._owed:
            self._hand_over(other)
        if self.was_told_to_end:
            self._process.end()

    def end(self) -> None:
        """Tell the process that there are no more requests; it ends by itself."""
        self.was_told_to_end = True
        self._process.end()

    def stop(self) -> None:
        """End the process and what it started, if it still runs."""
        self._process.stop()

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, error_type, *error: object) -> None:
        try:
            if error_type is None:
                self.end()
                self._process.wait()
        finally:
            self.stop()


def run_group(
    python: str,
    module: str,
    requests: Mapping[Path, RunRequest],
    on_progress: Callable[[Told], None],
    logs: Path,
    side: str = "",
) -> list[Failure | None]:
    """Run requests by several processes that share each, under their framework's own launcher.

    requests  where to write each -> the request, which says how many processes
    logs      a folder for what the launcher writes
    Returns why each failed, None where it did not.
    """
    side = side or _side(module)
    own = {path: request.of_side(side) for path, request in requests.items()}
    for path, request in own.items():
        request.write(path)
    first = next(iter(own.values()))  # they are started alike
    launcher = _launcher(module, first, logs)
    process = Process(
        [python, "-W", "ignore", "-m", *launcher, *map(str, own)], on_progress, 1, first.device
    )
    try:
        status = process.wait()
    except BaseException:
        process.stop()
        raise
    failures = [_written_by_any(path.parent, side) for path in own]
    one = _how_one_ended(process.stderr)
    # Those that have lost another process say so, and not why that one is gone.
    killed = one and is_of(one.fields["end"], Kind.ENDED_BY_SIGNAL)
    if status == 0 or any(failures) and not killed:
        return failures
    return [_how_it_ended(process, side, python)] * len(failures)


def _how_one_ended(stderr: Sequence[str]) -> Reason | str:
    """Return how the first failed process of a launcher ended; empty where stderr says nothing.

    torchrun's report has `rank : 1` and `exitcode : -9` under its root cause; Paddle's launcher
    one line, `Container rank 1 status failed … code -9 …`.
    """
    told = "\n".join(stderr)
    rank = r"(?<!_)rank\s*:? "  # and no local_rank
    pattern = re.compile(rf"{rank}(\d+)(?:(?!{rank}).)*?code\s*:? (-?\d+)", re.DOTALL)
    # One that a signal ended is the cause, though another that missed it may have ended sooner.
    killed = (one for one in pattern.finditer(told) if -signal.SIGTERM != int(one[2]) < 0)
    first = max(told.rfind("Root Cause"), told.rfind("Container failed"), 0)
    found = next(killed, None) or pattern.search(told, first)
    if not found:
        return ""
    return Kind.GROUP_PROCESS_ENDED(rank=int(found[1]), end=ending(int(found[2])))


def _launcher(module: str, request: RunRequest, logs: Path) -> list[str]:
    """Return the words behind `python -m` that start several processes of a side's script."""
    number = str(request.processes)
    if ".torch." in module:
        run = ["torch.distributed.run", "--standalone", "--nproc-per-node", number, "-m", module]
    else:
        script = str(ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py"))
        run = [
            "paddle.distributed.launch",
            "--nproc_per_node",
            number,
            "--log_dir",
            str(logs),
            script,
        ]
    return ["twincheck.common.system.launched", *run]


def _side(module: str) -> str:
    return next(side for side in SIDES if side in module.split("."))


def _written(folder: Path, side: str) -> Failure | None:
    """Read what a worker has written of its failure; None where it has not."""
    try:
        entries = load_json(error_file(folder, side))
        reason, traceback = read_reason(entries["reason"]), entries["traceback"]
    except (UserError, KeyError, ValueError):  # it died before, or while it wrote this
        return None
    ours, place = entries.get("ours") is True, str(entries.get("crashed_at", ""))
    return Failure(reason, traceback, entries.get("certificate"), ours, side, place)


def _written_by_any(folder: Path, side: str) -> Failure | None:
    """Read what the first of several processes that failed has written: others have lost it."""
    files = [error_file(each, side) for each in (folder, *folder.glob(rank_folder("*")))]
    there = sorted((path for path in files if path.is_file()), key=os.path.getmtime)
    return next(filter(None, (_written(path.parent, side) for path in there)), None)


def _how_it_ended(process: Process, side: str, python: str) -> Failure:
    """Return the failure of a process that ended without a word of its own."""
    end = _how_one_ended(process.stderr)
    end = Kind.GROUP_LOST_PROCESS(end=end) if end else how_it_ended(process.wait(), process.stderr)
    where = Kind.WORKER_RUN_BY(python=python) if python != sys.executable else ""
    reason = Kind.WORKER_ENDED(side=side, end=end, where=where)
    return Failure(reason, "\n".join(process.stderr))
