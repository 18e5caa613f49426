"""Did several processes train as one does?  Rows of step 5, in the check's process.

To rounding in the first steps, on both sides and in both precisions; then the torch side's losses
are held to one process's by the self-twins' envelope, as Paddle's are to torch's.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from common.logs.reader import read_log
from common.logs.result_folder import FLOAT32, FLOAT64, ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar
from common.system.frameworks import SIDES
from common.verdict.judge import judge_logs
from common.verdict.row import Row, claim

ONE, SEVERAL, ALONE = "train_shared", "train_several", "train_alone"  # stems


def processes_of(folder: Path) -> int:
    """How many processes of a side trained what is in a result folder."""
    path = ResultFolder(folder).log("train_full", "torch")
    return (read_sidecar(path) or Sidecar()).processes.get("main", 1)


def first_steps(folder: Path, model: str) -> list[Row]:
    """The first steps of each side's several processes against its one."""
    files, rows = ResultFolder(folder), []
    for side in SIDES:
        logs = [files.log(stem, side, run) for run in (FLOAT32, FLOAT64) for stem in (ONE, SEVERAL)]
        own = [row for row in judge_logs(*logs, step=5, model=model).rows if row.key != "spread"]
        with read_log(files.log(SEVERAL, side)) as log:
            apart = float(log["spread"].max())
        note = "all processes hold the same weights after the first steps"
        for row in [*own, claim("spread", apart, 0.0, note)]:
            row.key = f"processes/{side}/{row.key}"
            rows.append(row)
    return rows


def later_steps(
    folder: Path, own: Sequence[np.ndarray], noise: np.ndarray, drift: Callable, parts_of: Callable
) -> list[Row]:
    """The torch side's losses, by several processes and by one, as far as both have them.

    own     of the self-twins, by several processes
    noise   as for `drift`, which with `parts_of` is step 5's own
    """
    files = ResultFolder(folder)
    with ExitStack() as stack:
        several, alone = (
            stack.enter_context(read_log(files.log(stem, "torch")))["curve/loss"]
            for stem in ("train_full", ALONE)
        )
    per_epoch = (read_sidecar(files.log("train_full", "torch")) or Sidecar()).steps_per_epoch
    steps = min(several.size, alone.size, *(losses.size for losses in own))
    cut = [losses[:steps] for losses in (several, alone, *own)]
    rows = drift(*cut[:2], cut[2:], noise, parts_of(steps, per_epoch.get("main") or steps))
    for row in rows:
        row.key = row.key.replace("train/drift", "processes/torch/drift")
        row.note = row.note.replace(
            "the sides' float32 losses", "the losses of several processes and of one"
        )
    return rows
