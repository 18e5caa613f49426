"""Step 4, paddle side: the first steps of a training, by one process or by several that share it.

    python -m step4_backward.paddle.parallel REQUEST.json
    LAUNCHER -m step4_backward.paddle.parallel REQUEST.json (common/pair/twin_process.py)

Either way the request's `processes` says into how many parts a batch is cut: alone, one process
takes them all.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from common.system.start import begin_side

    begin_side("paddle", __doc__)

import inspect

import numpy as np

from common.pair.case_hooks import data_cases, training
from common.pair.data import count
from common.pair.schedules import constant
from common.pair.shares import PartOfTape, Share
from common.sides import paddle_side as side
from common.sides.paddle_group import join_group
from common.sides.paddle_loader import Samples, batches
from common.sides.twin import main
from step4_backward.paddle.process_group import averaged, replicate

STEPS = 3
PART = 8  # samples of one process; so a whole batch has that many times the processes

GROUP = join_group()
RANK, PROCESSES = GROUP.rank, GROUP.count


def parallel(run):
    """Log losses, the first step's gradients, and the weights after the last one."""
    samples = run.samples("train")
    rows = PART * run.request.processes // PROCESSES
    run.session.tape = PartOfTape(run.request.seed, Share(RANK, PROCESSES, rows * PROCESSES))
    run.session.probing, run.session.keeps_choices = False, True
    model = run.build(training=True)
    for norm in side.batch_norms(model):
        norm.eval()  # a process knows its own samples alone: with their statistics it would differ
    replica = replicate(model, PROCESSES)
    settings = training(run.pair, run.case.config, run.data_preset)
    rule = side.Optimizer(run.parameters(model), "adam", settings["lr"], constant)
    accepted = inspect.signature(model.forward).parameters
    for step, batch in enumerate(shared(run, samples, rows)):
        run.session.begin(step, prefix=f"{run.prefix}{step}/")
        tensors = {key: side.tensor(values) for key, values in batch.items()}
        # Choices are each process's own, of another shape than one process's: they are no rows, but
        # float32 goes on with float64's.
        with run.session.unrecorded(), averaged(replica, PROCESSES), run.drawing():
            outputs = replica(**{key: value for key, value in tensors.items() if key in accepted})
            loss = run.loss(outputs, tensors)
            loss.backward()
        run.log(f"{step}/loss", GROUP.mean(loss))
        if step == 0:
            gradients = ((name, side.gradient(value)) for name, value in run.parameters(model))
            run.log_as_reference(f"{step}/grad/", gradients)
        rule.step()
        side.clear_gradients(model)
        run.progress(f"step {step + 1}/{STEPS}")
    apart = [GROUP.spread(value) for _, value in run.parameters(model)]
    run.log("spread", np.array([float(value) for value in apart]))
    weights = ((name, side.array(value)) for name, value in run.parameters(model))
    run.log_as_reference("weight/", weights)


def shared(run, samples, rows):
    """The batches of the first steps in the tape's order: this process's rows of each."""
    order = run.session.tape.permutation("shuffle", 0, count(samples))
    whole = rows * PROCESSES
    for step in range(STEPS):
        first = step * whole + RANK * rows
        yield from batches(Samples(samples), order[first : first + rows], rows)


if __name__ == "__main__":
    stem = "several" if PROCESSES > 1 else "parallel"
    sys.exit(main(side, stem, parallel, cases=data_cases, group=GROUP))
