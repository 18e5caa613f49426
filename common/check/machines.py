"""Which options of several processes go together."""

from collections.abc import Sequence

from common.check.options import CheckOptions
from common.check.steps import Step
from common.pair.case_hooks import data_preset, training
from common.pair.pairs import Pair
from common.pair.request import RunRequest
from common.system.errors import UserError


def refuse_machines(step: Step, options: CheckOptions, pairs: Sequence[Pair]) -> None:
    """Raise UserError for options of several processes that do not go together, or with a pair."""
    run = options.run
    if step.several is None:
        return
    if run.processes == 1 or run.nnodes == 1:
        idle = ("nnodes", "node_rank", "master") if run.processes == 1 else ("node_rank", "master")
        given = [name for name in idle if getattr(run, name) != getattr(RunRequest, name)]
        told = [f"--{name.replace('_', '-')}" for name in given]
        if told:
            more = "--processes N" if run.processes == 1 else "--nnodes N"
            raise UserError(f"{', '.join(told)} has no use without {more}: give that too")
    if run.processes > 1 and (options.reuse or options.reference):
        given = "--reuse" if options.reuse else "--reference"
        raise UserError(f"--processes trains both sides anew: leave {given} out")
    for pair in pairs if run.processes > 1 else ():
        preset = data_preset(pair, run.preset)
        samples = training(pair, pair.config(preset), preset)["batch_size"]
        if samples < run.processes:
            raise UserError(
                f"--processes {run.processes}: a batch of {pair.name} has {samples} samples, and "
                f"not every process would have one: give {samples} at most"
            )
    if run.nnodes == 1:
        return
    if run.processes % run.nnodes:
        raise UserError(
            f"--processes {run.processes} on --nnodes {run.nnodes}: every machine has as many "
            "processes: give a multiple"
        )
    if run.node_rank >= run.nnodes:
        raise UserError(
            f"--node-rank {run.node_rank}: {run.nnodes} machines have the numbers 0 to "
            f"{run.nnodes - 1}"
        )
    host, _, port = (run.master or "").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise UserError(
            f"--nnodes {run.nnodes}: say where all find the first machine: --master HOST:PORT, the "
            "same on each" + (f", not {run.master}" if run.master else "")
        )
