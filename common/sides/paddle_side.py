"""One side's instruments: torch_side.py and paddle_side.py are twins, line for line.

Models use `tap`, `dropout`, `choose`, `draw_normal`, `draw_integers`, `cross_entropy`,
`regression_loss` and `named`, which are here, and `keep_unbiased_statistics`; the scripts of the
steps use the rest through this module.  B batch, T tokens, C classes.
"""

import numpy as np
import paddle
from paddle.nn import functional as F

from common.sides.margins import margins
from common.sides.probes import join_site
from common.sides.session import current
from common.sides.paddle_optimizer import *  # noqa: F403  (handed on)
from common.sides.paddle_tensors import *  # noqa: F403  (handed on)
from common.sides.paddle_tensors import array, observe, tensor

_argmax, _argsort = paddle.argmax, paddle.argsort  # as they are before paddle_choices.py's patch


def named(model):
    """Give every submodule its qualified name, the site of its draws and probes."""
    for name, module in model.named_sublayers(include_self=True):
        module._site = name
    return model


def tap(module, name, value):
    """Log a named intermediate; use what it returns: in single-step mode the reference's value."""
    session = current()
    if not session.probing:
        return value
    site = join_site(module._site, name)
    if not session.selection.takes(session.rename(site)):
        return value
    session.selection.saw(session.rename(site))
    return observe(session, session.label(site), value)


def dropout(module, name, value, p, mask_shape=None):
    """Inverted dropout with a mask from the tape; the identity in eval mode or for p = 0.

    `mask_shape` broadcasts to the value's (all ones but the batch and channels: dropout2d).
    """
    if not module.training or p == 0.0:
        return value
    keep = keep_mask(join_site(module._site, name), value, p, mask_shape)
    return value * keep / (1.0 - p)


def keep_mask(site, value, p, mask_shape=None):
    """A draw from the tape, 1 = keep, with the dtype of `value`; its rate p is a row of the log."""
    session = current()
    shape = tuple(value.shape if mask_shape is None else mask_shape)
    mask, key = session.keep_mask(site, shape, p)
    if key:
        session.record(key, np.array(p, array(value.flatten()[:0]).dtype))
        session.note_place(key)
    # Both frameworks turn bytes into floats in a fraction of what truth values take them.
    return tensor(mask.view(np.uint8)).astype(value.dtype)


def choose(module, name, scores):
    """The index of the largest score along the last axis, int64, no gradient: a discrete choice.

    Recorded in the ledger with its margin, and forced to the reference's where the session says so.
    A recomputation's scores differ by rounding: the model must keep its choices for it.
    """
    label = _choice_label(module, name)
    return enter_choice(label, scores.detach(), _argmax(scores.detach(), axis=-1))


def choose_top_k(module, name, scores, k):
    """Indices (..., k) of the k largest scores along the last axis, largest first, int64.

    Among equal scores the lower index comes first, on both sides.  A discrete choice as in
    `choose`; a score's margin is that to its neighbours, the k-th's also that over the (k+1)-th.
    Raises ValueError for a k that is not from 1 to the number of scores.
    """
    label = _choice_label(module, name)
    count = scores.shape[-1]
    if not 1 <= k <= count:
        raise ValueError(f"{label}: k is {k}; allowed: 1 to {count}, as many as there are scores")
    order = _argsort(scores.detach(), axis=-1, descending=True, stable=True)
    return enter_choice(label, scores.detach(), order[..., :k])


def choose_order(module, name, scores):
    """Indices (..., N) that sort the scores along the last axis, largest first, int64.

    Equal scores keep their order.  A discrete choice as in `choose_top_k`, with all N of them.
    """
    return choose_top_k(module, name, scores, scores.shape[-1])


def enter_choice(label, scores, choice, kind=""):
    """Enter a choice (...) or (..., k) among scores (..., N) in the ledger; what to go on with.

    The largest scores are meant to be chosen, the larger first.  `kind` marks what was not asked
    for by name (common/sides/paddle_choices.py): one side alone may have it.
    """
    session = current()
    key = session.prefix + label
    own = array(choice)
    if session.record is not None and not session.recomputing:
        several = {"whole": True} if own.ndim == scores.ndim else {}  # all scores are looked at
        session.record(f"{key}:scores", array(scores), **several)
        session.record(f"{key}:margin", margins(array(scores), own))
        session.record(key, own)
        for row in (key, f"{key}:margin", f"{key}:scores"):
            session.note_place(row, kind)
        session.ledger[key] = {"margin": f"{key}:margin", "scores": f"{key}:scores"}
        session.choices[key] = own
    elif session.keeps_choices and not session.recomputing:
        session.choices[key] = own
    given = session.choices if session.recomputing else session.forced
    forced = None if given is None else given.get(key)
    if forced is None or forced.shape != own.shape or np.any(forced >= scores.shape[-1]):
        return choice  # among scores of another number there is nothing to force
    if session.record is not None and not np.array_equal(own, forced):
        session.flips.append(key)
    return tensor(forced)


def _choice_label(module, name):
    """The label of a choice that the model asks for by name."""
    label = current().label(join_site(module._site, name))
    if current().recomputing:
        raise RuntimeError(f"{label} is chosen again in a recomputation; keep the first choice")
    return label


def draw_normal(module, name, shape, like):
    """N(0, 1) from the tape, with the dtype of `like`."""
    session = current()
    label = session.label(join_site(module._site, name))
    return tensor(session.tape.normal(label, session.step, tuple(shape))).astype(like.dtype)


def draw_integers(module, name, shape, end):
    """Integers from 0 to below `end` from the tape, int64, each as likely as any other."""
    session = current()
    label = session.label(join_site(module._site, name), "draw")
    return tensor(session.tape.integers(label, session.step, tuple(shape), end))


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
    losses = differences * differences if kind == "mse" else paddle.abs(differences)
    if kind == "huber":
        near = 0.5 * differences * differences
        losses = paddle.where(losses <= delta, near, delta * (losses - 0.5 * delta))
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
    log_probs = F.log_softmax(logits.reshape([-1, classes]), axis=-1)  # (N, C)
    labels = labels.reshape([-1])  # (N)
    kept = labels != ignore_index
    index = paddle.where(kept, labels, paddle.zeros_like(labels))
    weight = paddle.ones([classes], dtype=logits.dtype) if weight is None else weight
    mass = weight[index] * kept.astype(logits.dtype)  # (N)
    picked = paddle.take_along_axis(log_probs, index.unsqueeze(1), axis=1).squeeze(1)
    losses = -picked * mass * (1.0 - label_smoothing)
    if label_smoothing > 0.0:
        spread = -(log_probs * weight).sum(axis=-1) * kept.astype(logits.dtype)
        losses = losses + spread * (label_smoothing / classes)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / mass.sum()
