"""Losses that models may use: extras/publish takes this text along, in Paddle's words.

C classes.
"""

from twincheck.common.system.reasons import Kind

REGRESSION_LOSSES = ("mse", "mae", "huber")


def regression_loss(side, predictions, labels, kind="mse", reduction="mean", delta=1.0):
    """Return how far predictions are from labels of the same shape.

    kind       mse squared, mae absolute, huber half squared up to `delta` and a line beyond
    reduction  none, mean or sum
    Raises ValueError for another kind or shape: one that is broadcast is seldom meant.
    """
    if list(predictions.shape) != list(labels.shape):
        ours, theirs = str(list(predictions.shape)), str(list(labels.shape))
        raise ValueError(Kind.LOSS_SHAPES_DIFFER(predictions=ours, labels=theirs))
    if kind not in REGRESSION_LOSSES:
        raise ValueError(Kind.LOSS_UNKNOWN(loss=kind, allowed=REGRESSION_LOSSES))
    differences = predictions - labels
    losses = differences * differences if kind == "mse" else side.lib.abs(differences)
    if kind == "huber":
        near = 0.5 * differences * differences
        losses = side.lib.where(losses <= delta, near, delta * (losses - 0.5 * delta))
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


def cross_entropy(
    side, logits, labels, weight=None, label_smoothing=0.0, ignore_index=-100, reduction="mean"
):
    """Cross-entropy, written out so that each option means the same on both sides.

    logits (..., C) float; labels (...) integer; weight (C) or None; reduction none, mean or sum.
    The mean is over the weights of the labels that are not ignored.
    """
    classes = logits.shape[-1]
    log_probs = side.lib.nn.functional.log_softmax(logits.reshape([-1, classes]), -1)  # (N, C)
    labels = labels.reshape([-1])  # (N)
    kept = labels != ignore_index
    index = side.lib.where(kept, labels, side.lib.zeros_like(labels))
    weight = side.lib.ones([classes], dtype=logits.dtype) if weight is None else weight
    mass = weight[index] * side.cast(kept, logits.dtype)  # (N)
    picked = side.take_along(log_probs, index.unsqueeze(1), 1).squeeze(1)
    losses = -picked * mass * (1.0 - label_smoothing)
    if label_smoothing > 0.0:
        spread = -(log_probs * weight).sum(axis=-1) * side.cast(kept, logits.dtype)
        losses = losses + spread * (label_smoothing / classes)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / mass.sum()
