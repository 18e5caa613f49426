"""Step 5, paddle side: training on the data, from the shared start, in the tape's order.

    python -m step5_train.paddle.train --phase first --model fastformer --data FOLDER --out FOLDER

Phases: `first`, the first steps in both precisions; `full`, the whole training in float32; `self`,
the same from a start one ulp away, which shows how far rounding alone drives a run.
"""

import hashlib
import sys

import numpy as np

from common import paddle_side as side
from common.initial import initial_weights
from common.optional import classification, data_cases, score, training
from common.setups import STEPS, schedule
from common.paddle_loader import Samples, batches, count, predict
from common.twin import DTYPES, main, phase


def train(run):
    """Train one model; log the loss of each step and the scores of each epoch."""
    samples, test = run.samples("train"), run.samples("test")
    settings = training(run.pair, run.case.config)
    epochs = run.options.epochs or settings["epochs"]
    steps = epochs * -(-count(samples) // settings["batch_size"])
    model = run.build(training=True)
    if phase() == "self":
        for _, value in run.parameters(model):
            side.assign(value, np.nextafter(side.array(value), np.float32(np.inf)))
    optimizer = side.Optimizer(
        run.parameters(model),
        settings["optimizer"],
        settings["lr"],
        schedule(settings["schedule"], settings["warmup_steps"], steps),
        settings["weight_decay"],
        clip_norm=settings["clip_norm"],
        decayed=run.decayed(model),
    )
    run.session.probing = False
    if phase() == "first":
        first_steps(run, model, optimizer, samples, settings)
        if run.dtype == "float32":
            run.extra["train_init"] = initial_weights(run)
        return

    run.session.record, record = None, run.session.record
    losses, rates, scores, orders = [], [], [], []
    for epoch in range(epochs):
        digest = hashlib.sha256()
        for batch in shuffled(run, samples, settings, epoch):
            for values in batch.values():
                digest.update(values.tobytes())
            run.session.begin(len(losses), prefix=run.prefix)
            rates.append(optimizer.lr())
            losses.append(float(one_step(run, model, optimizer, batch)))
        model.eval()
        outputs = predict(run, model, test, settings["batch_size"])
        model.train()
        orders.append(int.from_bytes(digest.digest()[:7], "little"))
        scores.append(score(run.pair, outputs, test))
        run.progress(f"epoch {epoch + 1}/{epochs}")
    run.session.record = record
    final = {name: np.float64(value) for name, value in scores[-1].items()}
    for name, value in final.items():
        run.log(name, value)
        run.log(f"curve/{name}", np.array([epoch[name] for epoch in scores]))
    run.log("curve/loss", np.array(losses))
    run.log("curve/lr", np.array(rates))
    run.log("curve/order", np.array(orders, dtype=np.int64))
    if classification(outputs, test) is not None:
        run.log("labels", test["labels"])
        run.log("predictions", outputs["logits"].argmax(-1))
    if phase() == "full":
        run.extra["train_align"] = final


def first_steps(run, model, optimizer, samples, settings):
    """Log the rate and the loss of the first steps, then the weights that they leave."""
    for step, batch in zip(range(STEPS), shuffled(run, samples, settings, 0), strict=False):
        run.session.begin(step, prefix=f"{run.prefix}train/{step:03d}/")
        run.log(f"train/{step:03d}/lr", optimizer.lr())
        run.log(f"train/{step:03d}/loss", one_step(run, model, optimizer, batch))
    run.session.begin(prefix=run.prefix)
    found = ((name, side.array(value)) for name, value in run.parameters(model))
    for name, values in run.as_reference(found):
        run.log(f"trained/weight/{name}", values)


def shuffled(run, samples, settings, epoch):
    """One epoch's batches in the tape's order; the last one may be smaller."""
    order = run.session.tape.permutation("shuffle", epoch, count(samples))
    return batches(Samples(samples), order, settings["batch_size"])


def one_step(run, model, optimizer, batch):
    """Forward, backward and update on one batch; returns the loss before the update."""
    tensors = {key: side.tensor(values) for key, values in batch.items()}
    loss = run.loss(run.call(model, tensors), tensors)
    loss.backward()
    optimizer.step()
    side.clear_gradients(model)
    return loss.detach()


if __name__ == "__main__":
    precisions = DTYPES if phase() == "first" else ("float32",)
    sys.exit(main(side, f"train_{phase()}", train, precisions, cases=data_cases))
