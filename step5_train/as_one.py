"""Several processes that share a training: what runs, and whether they train as one does.

To rounding in the first steps, on both sides and in both precisions; then the torch side's losses
are held to one process's by the self-twins' envelope, as Paddle's are to torch's.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from twincheck.common.check.steps import Launch
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import Row, first_bad_row
from twincheck.step4_backward.check_parallel import several
from twincheck.step4_backward.setups import STEPS
from twincheck.step5_train.envelope import drift, measured, parts_of, runs_of

ONE, SEVERAL, ALONE = "train_shared", "train_several", "train_alone"  # stems


def launches_of(processes: int) -> tuple[Launch, ...]:
    """Return what runs where so many processes of each side share its whole trainings.

    The sides take turns; what one process makes for all others to be held to runs before.
    """
    first = Launch({"phase": "first"})
    own = Launch({"phase": "self"}, processes=processes)
    full = Launch({"phase": "full"}, teacher_forced=False, processes=processes, then=(own,))
    if processes == 1:
        return first, replace(full, side_by_side=True)
    shared = Launch({"phase": "shared"}, teacher_forced=False)
    alone = replace(shared, torch_then=Launch({"phase": "alone"}))
    return first, alone, replace(shared, processes=processes, then=(full,))


def as_one(folder: Path, model: str) -> tuple[list[Row], list[str]]:
    """Show that several processes trained as one does: rows and a note; none of one process."""
    told = sidecar_of(ResultFolder(folder).log("train_full", "torch"))
    count = told.processes.get("main", 1)
    if count == 1:
        return [], []
    first = first_steps(folder, model)
    later, steps = later_steps(folder, told.steps_per_epoch.get("main"))
    off = first_bad_row([*first, *later])
    if off is not None:
        return first + later, [Kind.BATCH_SHARED_NOT_AS_ONE(count=count, key=off.key)]
    told = {"first": STEPS, "steps": steps, "apart": max(row.gap for row in later)}
    return first + later, [Kind.BATCH_SHARED(count=count, **told)]


def first_steps(folder: Path, model: str, sides: Sequence[str] = SIDES) -> list[Row]:
    """The first steps of each side's several processes against its one."""
    stems = (ONE, SEVERAL)
    return sum((several(folder, s, stems, 5, model, f"processes/{s}/") for s in sides), [])


def later_steps(folder: Path, per_epoch: int | None) -> tuple[list[Row], int]:
    """The torch side's losses, by several processes and by one; and how many steps both have."""
    files = ResultFolder(folder)
    with ExitStack() as stack:
        shared, alone = (
            stack.enter_context(read_log(files.log(stem, "torch")))["curve/loss"]
            for stem in ("train_full", ALONE)
        )
    twins = [each["curve/loss"].size for side in SIDES for each in runs_of(folder, side)]
    steps = min(shared.size, alone.size, *twins)
    parts = parts_of(steps, per_epoch or steps)
    whose = Kind.LOSSES_OF_PROCESSES()
    rows = drift(shared, alone, measured(folder, parts), folder, parts, whose=whose)
    for row in rows:
        row.key = row.key.replace("train/drift", "processes/torch/drift")
    return rows, steps
