"""Step 4, in parallel: do two processes with half a batch each give one process's gradients?

    twincheck check-parallel --model fastformer [--processes 2]

Each side by its framework's own launcher and data parallelism (torchrun, DistributedDataParallel;
paddle.distributed.launch, DataParallel; gloo on CPU, nccl on GPU), on step 5's data with dropout:
the masks are rows of the whole batch's.  Three steps of Adam; the first step's gradients and the
weights after the last are judged as everywhere, one process being the reference.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from twincheck.common.check.command_line import check
from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.check.steps import Launch, Step
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.row import Row, claim


def same_as_one(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """Each side's several processes against its one; and the processes against each other."""
    return [row for side in SIDES for row in _several(folder, side, pair.name)], []


def _several(folder: Path, side: str, model: str) -> list[Row]:
    files, stems = ResultFolder(folder), ("parallel", "several")
    runs = (RunKind.PLAIN, RunKind.FLOAT64)
    logs = [files.log(stem, side, run) for run in runs for stem in stems]
    rows = [row for row in judge_logs(*logs, step=4, model=model).rows if row.key != "spread"]
    with read_log(files.log("several", side)) as log:
        apart = float(log["spread"].max())
    rows.append(claim("spread", apart, 0.0, Kind.PROCESSES_AGREE()))
    for row in rows:
        row.key = f"{side}/{row.key}"
    return rows


STEP = Step(
    number=4,
    title="backward",
    script="parallel",
    launches=(),
    judged=("parallel",),
    guide_stem="parallel",
    data=True,
    extra=same_as_one,
    other="parallel",
)


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__, STEP.command)
    arguments = parser.take(*STEP.takes, "processes").parse_args(arguments)
    options, step = CheckOptions.of(arguments), for_processes(arguments.processes)
    return guarded(arguments.debug, lambda: check(step, options))


def for_processes(count: int) -> Step:
    """The step that compares one process with `count`."""
    request = {"data_weights": "perturbed", "processes": count}
    alone = Launch(request, teacher_forced=False)
    return replace(STEP, launches=(alone, replace(alone, processes=count)))
