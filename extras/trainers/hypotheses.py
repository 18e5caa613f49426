"""What commonly makes two trainings' losses part, each as a change to the reference's training.

NumPy only.  What a change holds, reference/torch/retrain.py says; here is what is tried, under the
words that people read.  Every one is a habit of trainers in use: a setting's other value, a loss
that is summed where it should be averaged, a schedule that is asked at another time.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twincheck.common.pair.data import LABELS

RANKS = (2, 4, 8)  # processes, micro-batches of an update
BETAS = ((0.9, 0.95), (0.9, 0.98), (0.9, 0.99), (0.8, 0.999), (0.95, 0.999), (0.5, 0.999))
EPSILONS = (1e-6, 1e-5, 1e-7, 1e-10, 1e-15)
DECAYS = (0.0, 0.01, 0.1, 0.05, 0.001)
RATES = (0.1, 10.0, 0.5, 2.0)
CLIPS = (1.0, 0.5, 5.0, 0.1)
SEEDS = 3  # other orders of the samples
IGNORED = -100
CHILDREN = 12  # parts of a model at most that are tried as frozen


def hypotheses(
    settings: Mapping,
    samples: Mapping[str, np.ndarray],
    weights: Sequence[str],
    dropouts: Sequence[str],
    per_epoch: int,
    seed: int = 0,
    ratio: float = 1.0,
) -> dict[str, dict]:
    """Words -> change, the commonest first.

    settings   of the training (case_hooks.training); `per_epoch` steps an epoch
    samples    name -> array (N, ...) of what it trains on
    weights    the names of the model's weights
    dropouts   and of its dropout layers
    seed       of the order of the samples
    ratio      the other training's first loss over the reference's
    """
    found: dict[str, dict] = {}
    for part in (
        _loss(samples, ratio),
        _together(settings),
        _clipped(settings),
        _decay(settings),
        _rule(settings),
        _rate(settings, per_epoch),
        _order(settings, seed),
        _model(weights, dropouts),
        _precision(),
    ):
        found |= part
    return found


def _loss(samples: Mapping[str, np.ndarray], ratio: float) -> Iterator[tuple[str, dict]]:
    labels = samples.get(LABELS)
    if labels is not None and labels.dtype.kind in "iu":
        if labels.ndim > 1:
            yield "labels shifted by one place more", {"labels": "next"}
            yield "labels shifted by one place less", {"labels": "previous"}
            rows = {"count": 0, "rows": "together", "loss": "mean", "shown": "mean"}
            yield "the loss is the mean over rows of each row's own mean", {"parts": rows}
        if (labels == IGNORED).any():
            yield "ignored labels are counted in the mean, as zeros", {"factor": "places"}
            if "input_ids" in samples and samples["input_ids"].shape == labels.shape:
                yield "ignored labels are trained on, as the ids there", {"labels": "ids"}
        yield "the loss is a sum over the labels", {"factor": "labels"}
        for share in (0.1, 0.05, 0.2):
            yield f"labels are smoothed by {share}", {"smoothing": share}
    if abs(ratio - 1) > 1e-3 and np.isfinite(ratio) and ratio > 0:
        said = f"{ratio:.6g} times the loss"
        yield f"{said}, gradients too", {"factor": ratio, "shown": ratio, "made_of": 1}
        said = f"{said} is logged, gradients are of the loss itself"
        yield said, {"shown": ratio, "made_of": 1}
    for count in (*RANKS, 16, 32):
        yield f"gradients are of {count} times the loss that is logged", {"factor": float(count)}
        yield f"gradients are of 1/{count} of the loss that is logged", {"factor": 1.0 / count}
    yield "the loss is logged after the update", {"shown": "after"}
    yield "the mean of all losses so far is logged", {"shown": "so far"}


def _together(settings: Mapping) -> Iterator[tuple[str, dict]]:
    size = settings["batch_size"]
    for count in RANKS:
        if count <= size:
            for rows, of in (("together", "micro-batches"), ("apart", "ranks")):
                parts = {"count": count, "rows": rows, "loss": "mean", "shown": "mean"}
                said = f"each of {count} {of} takes its own mean"
                yield f"{said}, and these are averaged", {"parts": parts}
                summed = {**parts, "loss": "sum"}
                yield f"{said}, and gradients of all are added", {"parts": summed}
                shown = {**summed, "shown": "sum"}
                yield f"{said}, and these are added, in the log too", {"parts": shown}
                first = {**parts, "shown": "first"}
                yield f"{said}, and the first one's is logged", {"parts": first}
        for loss in ("sum", "mean"):
            every = {"every": {"count": count, "loss": loss}}
            yield f"weights are updated after {count} batches alone, by their {loss}", every
    for other in (2 * size, 4 * size, max(1, size // 2), max(1, size // 4)):
        yield f"batches of {other}", {"settings": {"batch_size": other}}
    yield "gradients are not cleared: they add up over all steps", {"kept": 1 << 30}
    for count in (2, 4):
        yield f"gradients are cleared after {count} updates alone", {"kept": count}
    yield "the first step updates nothing", {"skipped": 1}


def _clipped(settings: Mapping) -> Iterator[tuple[str, dict]]:
    norm = settings["clip_norm"]
    if norm is not None:
        yield "gradients are not clipped", {"settings": {"clip_norm": None}}
        yield f"each element of a gradient is clipped to {norm:g}", _clip(norm, "value")
        yield f"each tensor's gradient is clipped to {norm:g} by itself", _clip(norm, "each")
        said = f"gradients are clipped to {norm:g} by the norm of what decays alone"
        yield said, _clip(norm, "decayed")
        for count in RANKS:
            parts = {"count": count, "rows": "together", "loss": "mean", "shown": "mean"}
            said = f"each of {count} micro-batches is clipped to {norm:g} before they are added"
            yield said, {"parts": parts, **_clip(norm, "parts")}
    for other in CLIPS:
        if other != norm:
            said = f"gradients are clipped to a norm of {other:g}"
            yield said, {"settings": {"clip_norm": other}}
    if norm is None:
        for other in CLIPS[:2]:
            yield f"each element of a gradient is clipped to {other:g}", _clip(other, "value")


def _clip(norm: float, of: str) -> dict:
    return {"clip": {"norm": norm, "of": of}}


def _decay(settings: Mapping) -> Iterator[tuple[str, dict]]:
    own = settings["weight_decay"] if settings["optimizer"] == "adamw" else 0.0
    if own:
        yield "everything decays, biases and norms too", {"decayed": "all"}
        yield "embeddings do not decay", {"decayed": "emb"}
        said = f"decay of {own:g} is added to the gradients (Adam with L2)"
        yield said, {"rule": {"coupled": True}}
        said = f"{said}, of biases and norms too"
        yield said, {"rule": {"coupled": True}, "decayed": "all"}
        yield "decay is not multiplied by the learning rate", {"rule": {"by_rate": False}}
    for other in DECAYS:
        if other != own:
            change = {"rule": {"weight_decay": other, **({} if own else {"coupled": True})}}
            kind = "" if own else ", added to the gradients"
            yield f"weight decay of {other:g}{kind}", change
            if not own and other:
                change = {"settings": {"optimizer": "adamw", "weight_decay": other}}
                yield f"weight decay of {other:g}, decoupled (AdamW)", change
                said = f"weight decay of {other:g}, decoupled (AdamW), of biases and norms too"
                yield said, {**change, "decayed": "all"}


def _rule(settings: Mapping) -> Iterator[tuple[str, dict]]:
    kind = settings["optimizer"]
    for other in ("adam", "adamw", "sgd"):
        if other != kind:
            name = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD with momentum 0.9"}[other]
            yield f"the optimizer is {name}", {"settings": {"optimizer": other}}
    if kind == "sgd":
        yield "SGD without momentum", {"rule": {"momentum": 0.0}}
        yield "SGD with momentum 0.99", {"rule": {"momentum": 0.99}}
        yield "SGD with Nesterov's momentum", {"rule": {"nesterov": True}}
        yield "SGD with a dampening of 0.9", {"rule": {"dampening": 0.9}}
        return
    yield "SGD without momentum", {"rule": {"kind": "sgd", "momentum": 0.0}}
    for betas in BETAS:
        yield f"Adam's betas are {betas[0]:g} and {betas[1]:g}", {"rule": {"betas": betas}}
    for eps in EPSILONS:
        yield f"Adam's epsilon is {eps:g}", {"rule": {"eps": eps}}
    yield "Adam's moments are not corrected for their start", {"rule": {"corrected": False}}
    yield "Adam's epsilon stands inside the root", {"rule": {"inside": True}}


def _rate(settings: Mapping, per_epoch: int) -> Iterator[tuple[str, dict]]:
    lr, warmup, schedule = (settings[name] for name in ("lr", "warmup_steps", "schedule"))
    for other in RATES:
        yield f"a learning rate of {lr * other:g}", {"settings": {"lr": lr * other}}
    for count in RANKS:
        yield f"{count} times the learning rate, as for {count} ranks", {"rate": ("times", count)}
        yield f"1/{count} of the learning rate", {"rate": ("times", 1 / count)}
        yield f"the schedule goes on {count} times a step", {"rate": ("often", count)}
        yield f"the schedule goes on after {count} steps alone", {"rate": ("seldom", count)}
    if warmup:
        yield "no warm-up", {"settings": {"warmup_steps": 0}}
        yield "the warm-up begins at a learning rate of zero", {"rate": ("from zero", 1)}
        for other in (warmup + 1, max(1, warmup - 1), 2 * warmup, max(1, warmup // 2)):
            yield f"a warm-up of {other} steps", {"settings": {"warmup_steps": other}}
    else:
        for other in (max(1, per_epoch // 10), 100, 500, 1000):
            yield f"a warm-up of {other} steps", {"settings": {"warmup_steps": other}}
    yield "the schedule is one step ahead", {"rate": ("early", 1)}
    yield "the schedule is one step behind", {"rate": ("late", 1)}
    yield "the schedule goes on after an epoch, by one step", {"rate": ("by epoch", 1)}
    yield "the schedule goes on after an epoch, by an epoch's steps", {"rate": ("at epochs", 1)}
    yield "the schedule ends with the first epoch", {"total": per_epoch}
    if schedule != "constant":
        yield "a constant learning rate after the warm-up", {"settings": {"schedule": "constant"}}
    for other in ("linear", "cosine"):
        if other != schedule:
            said = "a learning rate that falls to zero "
            said += "in a straight line" if other == "linear" else "by half a cosine"
            yield said, {"settings": {"schedule": other}}


def _order(settings: Mapping, seed: int) -> Iterator[tuple[str, dict]]:
    yield "samples are not shuffled", {"order": "in turn"}
    yield "samples come from the last to the first", {"order": "backwards"}
    yield "every epoch has the first one's order", {"order": "each epoch alike"}
    yield "orders are of epochs counted from 1", {"order": "from one"}
    for other in range(seed + 1, seed + 1 + SEEDS):
        yield f"the order of samples is seed {other}'s", {"order": other}
    other = not settings["drop_last"]
    said = "left out" if other else "trained on"
    yield (
        f"an epoch's last batch, which is not whole, is {said}",
        {"settings": {"drop_last": other}},
    )


def _model(weights: Sequence[str], dropouts: Sequence[str]) -> Iterator[tuple[str, dict]]:
    yield "nothing is dropped (dropout off)", {"mode": "no dropout"}
    yield "the model trains in eval mode", {"mode": "evaluated"}
    for name in dropouts if len(dropouts) > 1 else ():
        yield f"{name} drops nothing", {"undropped": [name]}
    yield "dropout draws the same at each step", {"draws": "each step alike"}
    yield "dropout draws what a step later does", {"draws": "a step later"}
    children = list(dict.fromkeys(name.split(".")[0] for name in weights))
    for child in children[:CHILDREN] if len(children) > 1 else ():
        yield f"{child} does not learn", {"frozen": f"{child}."}
    for name in weights:
        if (
            "emb" in name
            and name.endswith("weight")
            and name.removesuffix(".weight") not in children
        ):
            yield f"{name} does not learn", {"frozen": name}


def _precision() -> Iterator[tuple[str, dict]]:
    yield "the loss is computed in bfloat16", {"logits": "lowered"}
    yield "logits are rounded to bfloat16", {"logits": "rounded"}
    yield "activations in bfloat16 (autocast, O1)", {"half": "activations"}
    yield "weights in bfloat16, without master weights", {"half": "weights"}
    yield "weights in bfloat16, of master weights in float32 (O2)", {"half": "copies"}
