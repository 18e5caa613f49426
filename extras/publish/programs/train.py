"""Train the model on the training data, and keep the weights of its best epoch.

    python train.py                          as config.json says, from the model's initial weights
    python train.py --epochs 1 --steps 20    a short run

Writes output/best.pdparams.  Exit status: 0 done, 2 with a sentence.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import paddle
from eval import evaluate
from model_package import CONFIG, FOLDER, SETTINGS, arrays, begin, build, load_weights
from model_package.model import loss as loss_of
from model_package.schedules import schedule


def main():
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=SETTINGS["train"]["epochs"])
    parser.add_argument("--steps", type=int, help="end after so many steps")
    parser.add_argument("--weights", type=Path, metavar="FILE.pdparams", help="start from these")
    parser.add_argument("--data", type=Path, default=FOLDER / "data", metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=FOLDER / "output", metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"])
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    given = parser.parse_args()
    if min(given.epochs, given.steps or 1) < 1:
        parser.error("--epochs and --steps are numbers from 1")
    paddle.set_device(given.device)
    try:
        samples, test = (arrays.read(given.data / f"{part}.npz") for part in ("train", "test"))
        begin(given.seed)
        model = build(dict(CONFIG))
        if given.weights:
            load_weights(model, given.weights)
        given.out.mkdir(parents=True, exist_ok=True)
        train(model, samples, test, given)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def train(model, samples, test, given):
    """All epochs: a line every ten steps, scores behind each epoch, the best epoch's weights."""
    settings = SETTINGS["train"]
    kind, judged = settings["best"]
    size, count = settings["batch_size"], len(next(iter(samples.values())))
    per_epoch = -(-count // size)
    steps = min(given.epochs * per_epoch, given.steps or given.epochs * per_epoch)
    rule = settings["schedule"], settings["warmup_steps"]
    factor = schedule(*rule, steps, per_epoch, settings["lr"])
    optimizer = optimizer_of(model, settings)
    best, step = None, 0
    for epoch in range(-(-steps // per_epoch)):
        model.train()
        order = np.random.default_rng([given.seed, epoch]).permutation(count)
        ended = time.perf_counter()
        for first in range(0, count, size):
            started = ended
            batch = {k: values[order[first : first + size]] for k, values in samples.items()}
            batch = arrays.tensors(batch)
            read = time.perf_counter()
            begin(given.seed, step)
            optimizer.set_lr(settings["lr"] * factor(step))
            loss = loss_of(model(**arrays.taken(model, batch)), batch)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            value, ended = float(loss), time.perf_counter()
            step += 1
            if step % 10 == 0 or step == steps:
                rows = len(order[first : first + size])
                print(
                    f"[Train][Epoch {epoch}][Iter {step}/{steps}] lr: {optimizer.get_lr():.6g}, "
                    f"loss: {value:.6f}, batch_cost: {ended - started:.5f} s, "
                    f"reader_cost: {read - started:.5f} s, "
                    f"avg_ips: {rows / (ended - started):.2f} samples/s",
                    flush=True,
                )
            if step == steps:
                break
        scores = evaluate(model, test)
        told = ", ".join(f"{name}: {value:.6f}" for name, value in scores.items())
        print(f"[Eval][Epoch {epoch}] {told}", flush=True)
        score = scores.get(judged, next(iter(scores.values())))
        if best is None or (score < best if kind == "smallest" else score > best):
            best = score
            paddle.save(model.state_dict(), str(given.out / "best.pdparams"))
    print(f"best {judged}: {best:.6f}, written: {given.out / 'best.pdparams'}")


def optimizer_of(model, settings):
    """The optimizer that config.json names; its learning rate is set at each step."""
    clip = settings["clip_norm"]
    given = {
        "learning_rate": settings["lr"],
        "parameters": [value for value in model.parameters() if not value.stop_gradient],
        "grad_clip": None if clip is None else paddle.nn.ClipGradByGlobalNorm(clip),
    }
    if settings["optimizer"] == "sgd":
        return paddle.optimizer.Momentum(momentum=0.9, **given)
    if settings["optimizer"] == "adam":
        return paddle.optimizer.Adam(**given)
    decayed = {value.name for value in given["parameters"] if value.ndim > 1}
    return paddle.optimizer.AdamW(
        weight_decay=settings["weight_decay"],
        apply_decay_param_fun=decayed.__contains__,
        **given,
    )


if __name__ == "__main__":
    sys.exit(main())
