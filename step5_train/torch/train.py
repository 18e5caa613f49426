"""Step 5, torch side: training on the digits, from the shared start, in the tape's order.

    python -m step5_train.torch.train --phase first --model fastformer --data FOLDER --out FOLDER

Phases: `first`, the first steps in both precisions; `full`, the whole training in float32; `self`,
the same from a start one ulp away, which shows how far rounding alone drives a run.
"""

import hashlib
import sys

import numpy as np

from common import torch_side as side
from common.data import accuracy, macro_f1, macro_f_seed
from common.pairs import data_cases
from common.setups import STEPS, schedule
from common.torch_loader import Samples, batches, predict, split
from common.twin import DTYPES, main, phase


def train(run):
    """Train one model; log the loss of each step and the scores of each epoch."""
    digits = run.data["digits"]
    samples, test = split(digits, "train"), split(digits, "test")
    settings = dict(run.pair.case.TRAIN["digits"])
    epochs = run.options.epochs or settings["epochs"]
    steps = epochs * -(-len(samples["labels"]) // settings["batch_size"])
    model = run.build(training=True)
    if phase() == "self":
        for _, value in run.parameters(model):
            side.assign(value, np.nextafter(side.array(value), np.float32(np.inf)))
    optimizer = side.Optimizer(
        run.parameters(model),
        settings["optimizer"],
        settings["lr"],
        schedule(settings["schedule"], settings["warmup_steps"], steps),
        settings.get("weight_decay", 0.0),
        clip_norm=settings.get("clip_norm"),
        decayed=run.decayed(model),
    )
    run.session.probing = False
    if phase() == "first":
        first_steps(run, model, optimizer, samples, settings)
        return

    run.session.record, record = None, run.session.record
    losses, rates, accuracies, orders = [], [], [], []
    for epoch in range(epochs):
        digest = hashlib.sha256()
        for batch in shuffled(run, samples, settings, epoch):
            digest.update(batch["input_ids"].tobytes())
            run.session.begin(len(losses), prefix=run.prefix)
            rates.append(optimizer.lr())
            losses.append(float(one_step(run, model, optimizer, batch)))
        model.eval()
        scores, labels = predict(run, model, test, settings["batch_size"])
        model.train()
        orders.append(int.from_bytes(digest.digest()[:7], "little"))
        accuracies.append(accuracy(labels, scores.argmax(-1), scores.shape[-1]))
        run.progress(f"epoch {epoch + 1}/{epochs}")
    run.session.record = record
    predictions = scores.argmax(-1)
    final = {
        "accuracy": np.float64(accuracies[-1]),
        "macro_f1": np.float64(macro_f1(labels, predictions, scores.shape[-1])),
        "macro_f_seed": np.float64(macro_f_seed(labels, predictions, scores.shape[-1])),
    }
    for name, value in final.items():
        run.log(name, value)
    run.log("curve/loss", np.array(losses))
    run.log("curve/lr", np.array(rates))
    run.log("curve/order", np.array(orders, dtype=np.int64))
    run.log("curve/accuracy", np.array(accuracies))
    run.log("labels", labels)
    run.log("predictions", predictions)
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
    order = run.session.tape.permutation("shuffle", epoch, len(samples["labels"]))
    return batches(Samples(samples), order, settings["batch_size"])


def one_step(run, model, optimizer, batch):
    """Forward, backward and update on one batch; returns the loss before the update."""
    tensors = {key: side.tensor(values) for key, values in batch.items()}
    loss = run.module.loss(run.call(model, tensors), tensors)
    loss.backward()
    optimizer.step()
    side.clear_gradients(model)
    return loss.detach()


if __name__ == "__main__":
    precisions = DTYPES if phase() == "first" else ("float32",)
    sys.exit(main(side, f"train_{phase()}", train, precisions, cases=data_cases))
