"""What two other tools' default rules say of the same logs.

    reprod_log 1.0.1   the tool itself: mean |a - b| at most 1e-6 for every tensor (step 5: 1.5e-3)
    PaDiff 0.3.0       its default, compare_mode "mean": the means of each pair of tensors must
                       agree with numpy's assert_allclose(rtol=1e-7, atol=0)

    python -m faults.peers    asks reprod_log; reads JSON lines, answers True or False to each

Keys that one side alone has in the correct run are left out of both: a user would not log them.
A rule that fails a faulty port says something only if it passes the correct one: `make faults`
asks both about the correct logs too.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np

from faults.checkout import ROOT
from twincheck.common.logs.reader import read_log
from twincheck.common.system.errors import UserError
from twincheck.common.system.start import show_help

PADIFF_RTOL = 1e-7
NO_LOGS = "no logs"


def one_sided(reference: Path, candidate: Path) -> list[str]:
    """Keys that only one of two logs has; none where a log is not there."""
    if not (reference.is_file() and candidate.is_file()):
        return []
    with read_log(reference) as ref, read_log(candidate) as cand:
        return sorted(set(ref) ^ set(cand))


def padiff_passes(reference: Path, candidate: Path, ignored: Collection[str]) -> bool:
    """PaDiff's default rule on every tensor of two logs; a tensor that one log lacks fails."""
    with read_log(reference) as ref, read_log(candidate) as cand:
        keys = set(ref) - set(ignored)
        if keys != set(cand) - set(ignored):
            return False
        for key in sorted(keys):
            try:
                with np.errstate(over="ignore"):  # masks of -3e38 sum to minus infinity
                    means = ref[key].mean(), cand[key].mean()
                np.testing.assert_allclose(*means, rtol=PADIFF_RTOL, atol=0)
            except AssertionError:
                return False
    return True


class ReprodLog:
    """A process that has imported reprod_log once, and is asked about one pair of logs a line."""

    def __init__(self):
        self._process: subprocess.Popen | None = None  # until the first question

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "faults.peers"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def passes(
        self, reference: Path, candidate: Path, limit: float, ignored: Collection[str]
    ) -> bool:
        """The tool's own verdict; False also where it stops with an error."""
        self._process = self._process or self._start()
        question = [str(reference), str(candidate), limit, list(ignored)]
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer not in ("True", "False"):
            raise UserError(f"reprod_log did not answer about {candidate.name}: {answer!r}")
        return answer == "True"

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def nothing_said() -> dict[str, str]:
    """The answers about a run that left no logs."""
    return {"reprod_log": NO_LOGS, "padiff": NO_LOGS}


def says(
    tool: ReprodLog, reference: Path, candidate: Path, limit: float, ignored: Collection[str] = ()
) -> dict[str, str]:
    """Tool -> "passes", "fails", or NO_LOGS where the run left none."""
    if not (reference.is_file() and candidate.is_file()):
        return nothing_said()
    try:
        padiff = padiff_passes(reference, candidate, ignored)
    except UserError:  # a log that cannot be read
        padiff = False
    answers = {"reprod_log": tool.passes(reference, candidate, limit, ignored), "padiff": padiff}
    return {name: "passes" if passed else "fails" for name, passed in answers.items()}


def _serve() -> None:
    """See the module's docstring.  The tool prints its report, so answers take another way out."""
    import logging

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    sys.stdout = open(os.devnull, "w")
    from reprod_log import ReprodDiffHelper

    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    for line in sys.stdin:
        reference, candidate, limit, ignored = json.loads(line)
        heard.clear()
        tools = logging.getLogger("root")  # the name that reprod_log gives its logger
        tools.handlers = [Listener()]
        try:
            helper = ReprodDiffHelper()
            infos = [helper.load_info(reference), helper.load_info(candidate)]
            for key in ignored:
                infos[0].pop(key, None), infos[1].pop(key, None)
            helper.compare_info(*infos)
            helper.report(diff_method="mean", diff_threshold=limit, path=os.devnull)
            print(heard[-1:] == ["diff check passed"], file=answers)
        except Exception:  # keys or shapes that differ end it with an assertion
            print(False, file=answers)


if __name__ == "__main__":
    show_help(__doc__)
    _serve()
