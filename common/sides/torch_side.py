"""One side's instruments, and its losses: torch_side.py and paddle_side.py are twins.

The scripts of the steps use a backend and all that is bound to it through this module; models use
`cross_entropy` and `regression_loss`, which are here, and what instruments.py names.  C classes.
"""

import sys

import torch
from torch.nn import functional as F

from common.sides.backend_torch import *  # noqa: F403  (handed on)
from common.sides.bind import bind

bind(sys.modules[__name__])

REGRESSION_LOSSES = ("mse", "mae", "huber")


def regression_loss(predictions, labels, kind="mse", reduction="mean", delta=1.0):
    """How far predictions are from labels of the same shape.

    kind       mse squared, mae absolute, huber half squared up to `delta` and a line beyond
    reduction  none, mean or sum
    Raises ValueError for another kind or shape: one that is broadcast is seldom meant.
    """
    if list(predictions.shape) != list(labels.shape):
        shapes = f"{list(predictions.shape)} and {list(labels.shape)}"
        raise ValueError(f"regression_loss: predictions and labels are {shapes}; make them one")
    if kind not in REGRESSION_LOSSES:
        raise ValueError(f"regression_loss: kind is {kind!r}; allowed: {REGRESSION_LOSSES}")
    differences = predictions - labels
    losses = differences * differences if kind == "mse" else torch.abs(differences)
    if kind == "huber":
        near = 0.5 * differences * differences
        losses = torch.where(losses <= delta, near, delta * (losses - 0.5 * delta))
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


def cross_entropy(
    logits, labels, weight=None, label_smoothing=0.0, ignore_index=-100, reduction="mean"
):
    """Cross-entropy, written out so that each option means the same on both sides.

    logits (..., C) float; labels (...) integer; weight (C) or None; reduction none, mean or sum.
    The mean is over the weights of the labels that are not ignored.
    """
    classes = logits.shape[-1]
    log_probs = F.log_softmax(logits.reshape([-1, classes]), dim=-1)  # (N, C)
    labels = labels.reshape([-1])  # (N)
    kept = labels != ignore_index
    index = torch.where(kept, labels, torch.zeros_like(labels))
    weight = torch.ones([classes], dtype=logits.dtype) if weight is None else weight
    mass = weight[index] * kept.to(logits.dtype)  # (N)
    picked = torch.take_along_dim(log_probs, index.unsqueeze(1), dim=1).squeeze(1)
    losses = -picked * mass * (1.0 - label_smoothing)
    if label_smoothing > 0.0:
        spread = -(log_probs * weight).sum(dim=-1) * kept.to(logits.dtype)
        losses = losses + spread * (label_smoothing / classes)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / mass.sum()
