"""Step 5, both sides: training on the data, from the shared start, in the tape's order.

Phases: `first`, the first steps in both precisions; `full`, the whole training in float32 under
each seed; `self`, the first of these again, as TWINS self-twins: every weight of the start and
every constant of Adam is moved by one rounding of float32, up or down as the tape says.  They show
how far rounding alone drives a side's runs apart.  `float64`, the whole training once more, where
that does not tell rounding from another function.  With --resume a training that was stopped
goes on from its checkpoints.
"""

import time

import numpy as np

from twincheck.common.logs.key import BUFFER
from twincheck.common.pair.case_hooks import training
from twincheck.common.pair.data import count
from twincheck.common.pair.metrics import classification, regression
from twincheck.common.pair.schedules import schedule
from twincheck.common.sides.batch_norm import (
    running_statistics,
    unbiased_variances,
)
from twincheck.common.sides.initial import initial_weights
from twincheck.common.sides.loader import Samples, batches, evaluate
from twincheck.common.sides.optimizer import Optimizer
from twincheck.common.sides.worker import DTYPES
from twincheck.common.system.errors import UserError
from twincheck.step4_backward.setups import STEPS
from twincheck.step5_train.training import TWINS, Training

BETAS = (0.9, 0.999)  # of Adam: both frameworks' own


def train(run):
    """Train one model from one seed; log the loss of each step and the scores of each epoch."""
    if run.request.phase != "full" and run.case.seed:
        return
    samples = run.samples("train")
    settings = training(run.pair, run.case.config, run.data_preset)
    per_epoch = batches_of(samples, settings)
    steps = run.request.steps or per_epoch * (run.request.epochs or settings["epochs"])
    run.session.probing, run.session.watching = False, True
    run.notes["optimizer"] = settings["optimizer"]
    if run.request.phase in ("full", "self", "float64"):
        for twin in range(1, 1 + TWINS) if run.request.phase == "self" else [0]:
            whole_training(run, samples, settings, steps, twin)
        return
    model, optimizer = prepared(run, settings, steps, per_epoch)
    first_steps(run, model, optimizer, samples, settings)
    if run.dtype != "float64" and run.session.reference is None:
        run.extra["train_init"] = initial_weights(run)


def whole_training(run, samples, settings, steps, twin):
    """Train to the end; log the curves, the final scores, predictions and buffers.

    twin  number of a self-twin, whose keys begin with it; 0: the run itself
    """
    per_epoch = batches_of(samples, settings)
    model, optimizer = prepared(run, settings, steps, per_epoch, twin)
    start = {name: run.side.array(value).copy() for name, value in run.parameters(model)}
    buffers, own = run.buffers(model), f"twin_{twin}/" if twin else ""
    progress = Training(run, model, optimizer, settings, per_epoch, steps, twin)
    judging = whole_batches(run.samples("validation") or run.samples("test"), settings)
    test = whole_batches(run.samples("test"), settings)
    last = None
    with run.session.unrecorded():
        while not progress.ended:
            one_epoch(run, model, optimizer, samples, settings, progress)
            last = scored(run, model, judging, settings)
            progress.end_epoch(last[0])
    log_buffers(run, model, buffers, f"{own}final/")
    ends = ((start[name], run.side.array(value)) for name, value in run.parameters(model))
    moved_most = max(float(np.abs(end - begun).max(initial=0.0)) for begun, end in ends)
    with run.session.unrecorded():
        if run.samples("validation"):
            progress.take_best()
            last = None  # of other weights
        scores, outputs = last or scored(run, model, test, settings)
        # What Paddle's own running variance makes of the outputs is no part of the training.
        with unbiased_variances(run.side, model) as others:
            if others and not run.samples("validation"):
                outputs = scored(run, model, test, settings)[1]
        progress.finish(scores)
    final = {name: np.float64(value) for name, value in scores.items()}
    found = {"curve/loss": np.array(progress.losses), **final, "moved": np.float64(moved_most)}
    if classification(outputs, test) is not None:
        found["predictions"] = outputs["logits"].argmax(-1)
    if regression(outputs, test) is not None:
        found["forecasts"] = outputs["predictions"]
    if not twin:
        found |= {f"curve/{k}": np.array([each[k] for each in progress.scores]) for k in final}
        found |= {"curve/lr": np.array(progress.rates), "test_samples": np.int64(count(test))}
        found["curve/order"] = np.array(progress.orders, dtype=np.int64)
        if "predictions" in found:
            found["labels"] = test["labels"]
    for name, values in found.items():
        run.log(f"{own}{name}", values)
    run.notes["steps_per_epoch"] = per_epoch
    if run.request.phase == "full" and not run.case.seed:
        run.extra["train_align_all"] = final


def log_buffers(run, model, before, path):
    """Log every buffer that is not what it was, and the BatchNorms' running statistics."""
    run.log_buffers(model, before, path)
    for name, values in running_statistics(run.side, model):
        run.log(f"{path}{BUFFER}/{run.session.rename(name)}", values, "BatchNorm")


def batches_of(samples, settings):
    """How many batches an epoch has.

    Raises UserError where not even one is whole, and others are left out.
    """
    whole, rest = divmod(count(samples), settings["batch_size"])
    if settings["drop_last"] and not whole:
        raise UserError(
            f"{count(samples)} training samples are no batch of {settings['batch_size']}, and "
            "drop_last leaves out what is not whole"
        )
    return whole if settings["drop_last"] else whole + (rest > 0)


def whole_batches(samples, settings):
    """The samples that are scored: those of whole batches alone, where the others are left out."""
    kept = count(samples) // settings["batch_size"] * settings["batch_size"]
    if not settings["drop_last"] or not kept:
        return samples
    return {name: values[:kept] for name, values in samples.items()}


def prepared(run, settings, steps, per_epoch, twin=0):
    """A new model and its optimizer; of a self-twin moved by one rounding, each its own way."""
    model = run.build(training=True)
    betas = BETAS
    if twin:
        betas = tuple(moved(run, twin, "betas", np.array(BETAS)).tolist())
        for name, value in run.parameters(model):
            run.side.assign(value, moved(run, twin, name, run.side.array(value)))
    name, warmup = settings["schedule"], settings["warmup_steps"]
    rule = schedule(name, warmup, steps, per_epoch, settings["lr"])
    optimizer = Optimizer(
        run.side,
        run.parameters(model),
        settings["optimizer"],
        settings["lr"],
        rule,
        settings["weight_decay"],
        clip_norm=settings["clip_norm"],
        decayed=run.decayed(model),
        betas=betas,
    )
    return model, optimizer


def moved(run, twin, name, values):
    """The values as float32's neighbours of theirs, up or down as the tape says."""
    values = values.astype(np.float32)
    signs = np.sign(run.session.tape.normal(f"twin_{twin}/{name}", 0, values.shape))
    return np.nextafter(values, np.float32(np.inf) * signs.astype(np.float32))


def one_epoch(run, model, optimizer, samples, settings, progress):
    """Train to the end of the epoch, or of the training, from where it stands."""
    loaded = shuffled(run, samples, settings, progress.epoch, skip=progress.step_of_epoch)
    started = time.perf_counter()
    for batch in loaded:
        read = time.perf_counter()
        run.session.begin(progress.step, prefix=run.prefix)
        rate = optimizer.lr()
        loss = float(one_step(run, model, optimizer, batch))
        ended = time.perf_counter()
        progress.took(batch, rate, loss, read - started, ended - started)
        started = ended
        if progress.step == progress.steps:
            return


def scored(run, model, samples, settings):
    """Name -> score of the model on the samples in eval mode, and its outputs."""
    model.eval()
    scores_and_outputs = evaluate(run, model, samples, settings["batch_size"])
    model.train()
    return scores_and_outputs


def first_steps(run, model, optimizer, samples, settings):
    """Log the rate and the loss of the first steps, then the weights and buffers they leave."""
    buffers = run.buffers(model)
    for step, batch in zip(range(STEPS), shuffled(run, samples, settings, 0), strict=False):
        run.session.begin(step, prefix=f"{run.prefix}train/{step:03d}/")
        run.log(f"train/{step:03d}/lr", optimizer.lr())
        run.log(f"train/{step:03d}/loss", one_step(run, model, optimizer, batch))
    run.session.begin(prefix=run.prefix)
    weights = ((name, run.side.array(value)) for name, value in run.parameters(model))
    run.log_as_reference("trained/weight/", weights)
    log_buffers(run, model, buffers, "trained/")


def shuffled(run, samples, settings, epoch, skip=0):
    """One epoch's batches in the tape's order, after `skip` of them; the last may be smaller."""
    order = run.session.tape.permutation("shuffle", epoch, count(samples))
    size, drop_last = settings["batch_size"], settings["drop_last"]
    return batches(run.side, Samples(samples), order[skip * size :], size, drop_last=drop_last)


def one_step(run, model, optimizer, batch):
    """Forward, backward and update on one batch; returns the loss before the update."""
    tensors = {key: run.side.tensor(values) for key, values in batch.items()}
    loss = run.loss(run.call(model, tensors), tensors)
    loss.backward()
    optimizer.step()
    run.side.clear_gradients(model)
    return loss.detach()


def stem(request):
    """What the logs of a phase are called."""
    return f"train_{'full' if request.phase == 'float64' else request.phase}"


def precisions(request):
    """The first steps in both, a whole training in one."""
    whole = "float64" if request.phase == "float64" else "float32"
    return DTYPES if request.phase == "first" else (whole,)
