"""What commonly makes two trainings' losses part, each as a change to the reference's training.

NumPy only.  What a change holds, retrain.py says; here is what is tried, under the
words that people read.  Every one is a habit of trainers in use: a setting's other value, a loss
that is summed where it should be averaged, a schedule that is asked at another time.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twincheck.common.pair.data import LABELS
from twincheck.extras.trainers import Kind

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
            yield Kind.LABELS_PLACE_MORE(), {"labels": "next"}
            yield Kind.LABELS_PLACE_LESS(), {"labels": "previous"}
            rows = {"count": 0, "rows": "together", "loss": "mean", "shown": "mean"}
            yield Kind.MEAN_OF_ROWS_MEANS(), {"parts": rows}
            yield Kind.SUM_OVER_ROWS(), {"factor": "rows"}
        if (labels == IGNORED).any():
            yield Kind.IGNORED_COUNTED(), {"factor": "places"}
            if "input_ids" in samples and samples["input_ids"].shape == labels.shape:
                yield Kind.IGNORED_TRAINED(), {"labels": "ids"}
        yield Kind.SUM_OVER_LABELS(), {"factor": "labels"}
        for share in (0.1, 0.05, 0.2):
            yield Kind.SMOOTHED_LABELS(share=share), {"smoothing": share}
    if abs(ratio - 1) > 1e-3 and np.isfinite(ratio) and ratio > 0:
        shown = {"shown": ratio, "made_of": 1}
        yield Kind.TIMES_THE_LOSS(ratio=ratio), {"factor": ratio, **shown}
        yield Kind.TIMES_THE_LOSS_LOGGED(ratio=ratio), shown
    for count in (*RANKS, 16, 32):
        yield Kind.GRADIENTS_TIMES(count=count), {"factor": float(count)}
        yield Kind.GRADIENTS_PART(count=count), {"factor": 1.0 / count}
    yield Kind.FIRST_NOT_LOGGED(), {"ahead": 1}
    yield Kind.LOGGED_AFTER(), {"shown": "after"}
    yield Kind.LOGGED_SO_FAR(), {"shown": "so far"}


def _together(settings: Mapping) -> Iterator[tuple[str, dict]]:
    size = settings["batch_size"]
    for count in RANKS:
        if count <= size:
            for rows, of in (("together", Kind.MICRO_BATCHES()), ("apart", Kind.RANKS())):
                parts = {"count": count, "rows": rows, "loss": "mean", "shown": "mean"}
                said = {"count": count, "of": of}
                yield Kind.MEANS_AVERAGED(**said), {"parts": parts}
                summed = {**parts, "loss": "sum"}
                yield Kind.MEANS_GRADIENTS_ADDED(**said), {"parts": summed}
                shown = {**summed, "shown": "sum"}
                yield Kind.MEANS_ADDED(**said), {"parts": shown}
                first = {**parts, "shown": "first"}
                yield Kind.MEANS_FIRST_LOGGED(**said), {"parts": first}
        for loss, said in (("sum", Kind.UPDATED_BY_SUM), ("mean", Kind.UPDATED_BY_MEAN)):
            yield said(count=count), {"every": {"count": count, "loss": loss}}
    for other in (2 * size, 4 * size, max(1, size // 2), max(1, size // 4)):
        yield Kind.BATCHES_OF(size=other), {"settings": {"batch_size": other}}
    yield Kind.NEVER_CLEARED(), {"kept": 1 << 30}
    for count in (2, 4):
        yield Kind.CLEARED_AFTER(count=count), {"kept": count}
    yield Kind.FIRST_STEP_IDLE(), {"skipped": 1}


def _clipped(settings: Mapping) -> Iterator[tuple[str, dict]]:
    norm = settings["clip_norm"]
    if norm is not None:
        yield Kind.NOT_CLIPPED(), {"settings": {"clip_norm": None}}
        yield Kind.ELEMENTS_CLIPPED(norm=norm), _clip(norm, "value")
        yield Kind.TENSORS_CLIPPED(norm=norm), _clip(norm, "each")
        yield Kind.CLIPPED_BY_DECAYING(norm=norm), _clip(norm, "decayed")
        for count in RANKS:
            parts = {"count": count, "rows": "together", "loss": "mean", "shown": "mean"}
            said = Kind.MICRO_BATCHES_CLIPPED(count=count, norm=norm)
            yield said, {"parts": parts, **_clip(norm, "parts")}
    for other in CLIPS:
        if other != norm:
            yield Kind.CLIPPED_TO(norm=other), {"settings": {"clip_norm": other}}
    if norm is None:
        for other in CLIPS[:2]:
            yield Kind.ELEMENTS_CLIPPED(norm=other), _clip(other, "value")


def _clip(norm: float, of: str) -> dict:
    return {"clip": {"norm": norm, "of": of}}


def _decay(settings: Mapping) -> Iterator[tuple[str, dict]]:
    own = settings["weight_decay"] if settings["optimizer"] == "adamw" else 0.0
    if own:
        yield Kind.EVERYTHING_DECAYS(), {"decayed": "all"}
        yield Kind.EMBEDDINGS_KEPT(), {"decayed": "emb"}
        coupled = {"rule": {"coupled": True}}
        yield Kind.DECAY_TO_GRADIENTS(decay=own), coupled
        yield Kind.DECAY_TO_ALL_GRADIENTS(decay=own), {**coupled, "decayed": "all"}
        yield Kind.DECAY_WITHOUT_RATE(), {"rule": {"by_rate": False}}
    for other in DECAYS:
        if other != own:
            change = {"rule": {"weight_decay": other, **({} if own else {"coupled": True})}}
            yield (Kind.DECAY_OF if own else Kind.DECAY_ADDED)(decay=other), change
            if not own and other:
                change = {"settings": {"optimizer": "adamw", "weight_decay": other}}
                yield Kind.DECAY_DECOUPLED(decay=other), change
                yield Kind.DECAY_DECOUPLED_OF_ALL(decay=other), {**change, "decayed": "all"}


def _rule(settings: Mapping) -> Iterator[tuple[str, dict]]:
    said = {"adam": Kind.OPTIMIZER_ADAM, "adamw": Kind.OPTIMIZER_ADAMW, "sgd": Kind.OPTIMIZER_SGD}
    for other in said:
        if other != settings["optimizer"]:
            yield said[other](), {"settings": {"optimizer": other}}
    if settings["optimizer"] == "sgd":
        yield Kind.SGD_WITHOUT_MOMENTUM(), {"rule": {"momentum": 0.0}}
        yield Kind.SGD_MORE_MOMENTUM(), {"rule": {"momentum": 0.99}}
        yield Kind.SGD_NESTEROV(), {"rule": {"nesterov": True}}
        yield Kind.SGD_DAMPENED(), {"rule": {"dampening": 0.9}}
        return
    yield Kind.SGD_WITHOUT_MOMENTUM(), {"rule": {"kind": "sgd", "momentum": 0.0}}
    for betas in BETAS:
        yield Kind.ADAM_BETAS(first=betas[0], second=betas[1]), {"rule": {"betas": betas}}
    for eps in EPSILONS:
        yield Kind.ADAM_EPSILON(eps=eps), {"rule": {"eps": eps}}
    yield Kind.ADAM_NOT_CORRECTED(), {"rule": {"corrected": False}}
    yield Kind.ADAM_EPSILON_INSIDE(), {"rule": {"inside": True}}


def _rate(settings: Mapping, per_epoch: int) -> Iterator[tuple[str, dict]]:
    lr, warmup, schedule = (settings[name] for name in ("lr", "warmup_steps", "schedule"))
    for other in RATES:
        yield Kind.RATE_OF(rate=lr * other), {"settings": {"lr": lr * other}}
    for count in RANKS:
        yield Kind.RATE_TIMES(count=count), {"rate": ("times", count)}
        yield Kind.RATE_PART(count=count), {"rate": ("times", 1 / count)}
        yield Kind.SCHEDULE_OFTEN(count=count), {"rate": ("often", count)}
        yield Kind.SCHEDULE_SELDOM(count=count), {"rate": ("seldom", count)}
    if warmup:
        yield Kind.NO_WARM_UP(), {"settings": {"warmup_steps": 0}}
        yield Kind.WARM_UP_FROM_ZERO(), {"rate": ("from zero", 1)}
        others = warmup + 1, max(1, warmup - 1), 2 * warmup, max(1, warmup // 2)
    else:
        others = max(1, per_epoch // 10), 100, 500, 1000
    for other in others:
        yield Kind.WARM_UP_OF(count=other), {"settings": {"warmup_steps": other}}
    yield Kind.SCHEDULE_AHEAD(), {"rate": ("early", 1)}
    yield Kind.SCHEDULE_BEHIND(), {"rate": ("late", 1)}
    yield Kind.SCHEDULE_BY_EPOCH(), {"rate": ("by epoch", 1)}
    yield Kind.SCHEDULE_AT_EPOCHS(), {"rate": ("at epochs", 1)}
    yield Kind.SCHEDULE_ONE_EPOCH(), {"total": per_epoch}
    if schedule != "constant":
        yield Kind.RATE_CONSTANT(), {"settings": {"schedule": "constant"}}
    for other, said in (("linear", Kind.RATE_LINEAR), ("cosine", Kind.RATE_COSINE)):
        if other != schedule:
            yield said(), {"settings": {"schedule": other}}


def _order(settings: Mapping, seed: int) -> Iterator[tuple[str, dict]]:
    yield Kind.NOT_SHUFFLED(), {"order": "in turn"}
    yield Kind.BACKWARDS(), {"order": "backwards"}
    yield Kind.EPOCHS_ALIKE(), {"order": "each epoch alike"}
    yield Kind.EPOCHS_FROM_ONE(), {"order": "from one"}
    for other in range(seed + 1, seed + 1 + SEEDS):
        yield Kind.ORDER_OF_SEED(seed=other), {"order": other}
    other = not settings["drop_last"]
    said = Kind.LAST_BATCH_LEFT_OUT if other else Kind.LAST_BATCH_TRAINED_ON
    yield said(), {"settings": {"drop_last": other}}


def _model(weights: Sequence[str], dropouts: Sequence[str]) -> Iterator[tuple[str, dict]]:
    yield Kind.NO_DROPOUT(), {"mode": "no dropout"}
    yield Kind.EVAL_MODE(), {"mode": "evaluated"}
    for name in dropouts if len(dropouts) > 1 else ():
        yield Kind.DROPS_NOTHING(name=name), {"undropped": [name]}
    yield Kind.DROPOUT_ALIKE(), {"draws": "each step alike"}
    yield Kind.DROPOUT_LATER(), {"draws": "a step later"}
    children = list(dict.fromkeys(name.split(".")[0] for name in weights))
    for child in children[:CHILDREN] if len(children) > 1 else ():
        yield Kind.LEARNS_NOT(name=child), {"frozen": f"{child}."}
    for name in weights:
        if (
            "emb" in name
            and name.endswith("weight")
            and name.removesuffix(".weight") not in children
        ):
            yield Kind.LEARNS_NOT(name=name), {"frozen": name}


def _precision() -> Iterator[tuple[str, dict]]:
    yield Kind.LOSS_IN_BFLOAT16(), {"logits": "lowered"}
    yield Kind.LOGITS_ROUNDED(), {"logits": "rounded"}
    yield Kind.ACTIVATIONS_IN_BFLOAT16(), {"half": "activations"}
    yield Kind.WEIGHTS_IN_BFLOAT16(), {"half": "weights"}
    yield Kind.MASTER_WEIGHTS(), {"half": "copies"}
