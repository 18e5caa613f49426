"""One side of a comparison, in a process of its own: python -m extras.bench.side REQUEST.json

Builds what the request names, says so, and does one step for each line that it is told on standard
input; after each it answers with seconds of wall time and of this process's CPU time, and with how
much memory the process had at its highest above what it had once everything was built.  Started by
extras/bench/turns.py, with one thread; the first step, which also prepares, is timed and marked by
its place.

A request: program, setting (extras/bench/programs.py).
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs nothing
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin, show_help

    show_help(__doc__)
    begin("numpy")

import json
import os
import time

from twincheck.extras.bench import Kind, programs

_STATUS = Path("/proc/self/status")


def main(request: str) -> None:
    """Build, then a step a line; ends where standard input does."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a peer prints is not an answer
    asked = json.loads(Path(request).read_text())
    step = programs.build(asked["program"], asked["setting"])
    print(json.dumps({"ready": True}), file=answers)
    before = _kib("VmRSS")
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        above = (_kib("VmHWM") - before) * 1024
        print(json.dumps(took | {"memory": above}), file=answers)


def _kib(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"{Kind.REQUEST_MISSING()}\n\n{__doc__}")
    main(sys.argv[1])
