"""Step 4, both sides: the first steps of a training that several processes may share.

The request's `processes` says into how many parts a batch is cut: alone, one process takes them
all.
"""

import numpy as np

from twincheck.common.pair.case_hooks import training
from twincheck.common.pair.data import count
from twincheck.common.pair.schedules import constant
from twincheck.common.pair.tape import Tape
from twincheck.common.sides.loader import Samples, batches
from twincheck.common.sides.optimizer import Optimizer
from twincheck.common.system.reasons import Kind

STEPS = 3
PART = 8  # samples of one process; so a whole batch has that many times the processes


class PartOfTape(Tape):
    """The draws of one process among several: its rows of what is drawn for the whole batch.

    rows   of each process
    """

    def __init__(self, seed, group, rows):
        super().__init__(seed)
        self._group, self._rows = group, rows

    def drawn(self, shape, kind=""):
        """The whole batch's shape, and this process's part; a permutation is of its own samples."""
        if kind == "permutation" or not shape or shape[0] != self._rows:
            return shape, ...
        first = self._group.rank * self._rows
        return (self._group.count * shape[0], *shape[1:]), slice(first, first + shape[0])


def stem(group):
    """The name of the log: of one process that takes all parts, or of several."""
    return "several" if group.count > 1 else "parallel"


def parallel(replicate, averaged, run):
    """Log losses, the first step's gradients, and the weights after the last one.

    replicate, averaged   the framework's own data parallelism (step4_backward/torch/parallel.py)
    """
    side, group = run.side, run.group
    rows = PART * run.request.processes // group.count
    run.session.tape = PartOfTape(run.request.seed, group, rows)
    run.session.probing, run.session.keeps_choices = False, True
    model = run.build(training=True)
    for norm in side.batch_norms(model):
        norm.eval()  # a process knows its own samples alone: with their statistics it would differ
    replica = replicate(model)
    settings = training(run.pair, run.case.config, run.data_preset)
    rule = Optimizer(side, run.parameters(model), "adam", settings["lr"], constant)
    for step, batch in enumerate(shared(run, run.samples("train"), rows)):
        run.session.begin(step, prefix=f"{run.prefix}{step}/")
        tensors = {key: side.tensor(values) for key, values in batch.items()}
        # Choices are each process's own, of another shape than one process's: they are no rows, but
        # float32 goes on with float64's.
        with run.session.unrecorded(), averaged(replica), run.drawing():
            outputs = replica(**run.of_forward(model, tensors))
            loss = run.loss(outputs, tensors)
            loss.backward()
        run.log(f"{step}/loss", group.mean(loss))
        if step == 0:
            gradients = ((name, side.gradient(value)) for name, value in run.parameters(model))
            run.log_as_reference(f"{step}/grad/", gradients)
        rule.step()
        side.clear_gradients(model)
        run.progress(Kind.PROGRESS_STEP(step=step + 1, steps=STEPS))
    apart = [group.spread(value) for _, value in run.parameters(model)]
    run.log("spread", np.array([float(value) for value in apart]))
    weights = ((name, side.array(value)) for name, value in run.parameters(model))
    run.log_as_reference("weight/", weights)


def shared(run, samples, rows):
    """The batches of the first steps in the tape's order: this process's rows of each."""
    order = run.session.tape.permutation("shuffle", 0, count(samples))
    whole = rows * run.group.count
    for step in range(STEPS):
        first = step * whole + run.group.rank * rows
        batch = order[first : first + rows]
        yield from batches(run.side, Samples(samples), batch, rows)
