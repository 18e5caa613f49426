"""What a model asks for by name, and what stands behind it in every model: B batch, T tokens.

Models use `tap`, `dropout`, `choose`, `draw_normal`, `draw_integers` and `named`; the losses that
they may use are in losses.py.
"""

import numpy as np

from twincheck.common.sides.places import running_layer
from twincheck.common.sides.probes import join_site, observe
from twincheck.common.sides.session import current
from twincheck.common.system.reasons import Kind


def named(side, model):
    """Give every submodule its qualified name, the site of its draws and probes."""
    for name, module in side.modules(model):
        module._site = name
    return model


def tap(side, module, name, value):
    """Log a named intermediate; use what it returns: in teacher forcing the reference's value."""
    session = current()
    if not session.probing:
        return value
    site = join_site(module._site, name)
    if not session.selection.takes(session.rename(site)):
        return value
    session.selection.saw(session.rename(site))
    return observe(side, session, session.label(site), value)


def dropout(side, module, name, value, p, mask_shape=None):
    """Inverted dropout with a mask from the tape; the identity in eval mode or for p = 0.

    `mask_shape` broadcasts to the value's (all ones but the batch and channels: dropout2d).
    """
    if not module.training or p == 0.0:
        return value
    keep = keep_mask(side, join_site(module._site, name), value, p, mask_shape)
    return value * keep / (1.0 - p)


def keep_mask(side, site, value, p, mask_shape=None):
    """A draw from the tape, 1 = keep, with the dtype of `value`; its rate p is a row of the log."""
    session = current()
    shape = tuple(value.shape if mask_shape is None else mask_shape)
    mask, key = session.keep_mask(site, shape, p)
    if key:
        of_graph = str(value.dtype).rpartition(".")[2]  # has no values yet
        like = of_graph if session.is_graph else side.array(value.flatten()[:0]).dtype
        session.record(key, np.array(p, like))
        session.note_place(key)
        if layer := running_layer():
            session.note_layer(key.removesuffix(":p"), {"rate": float(p)}, layer)
    # Both frameworks turn bytes into floats in a fraction of what truth values take them; a static
    # graph has no constants of bytes.
    mask = mask.astype(np.int32) if session.is_graph else mask.view(np.uint8)
    return side.cast(side.tensor(mask), value.dtype)


def choose(side, module, name, scores):
    """The index of the largest score along the last axis, int64, no gradient: a discrete choice.

    Recorded in the ledger with its margin, and forced to the reference's where the session says so.
    A recomputation's scores differ by rounding: the model must keep its choices for it.
    """
    label = _choice_label(module, name)
    return enter_choice(side, label, scores.detach(), side.argmax(scores.detach(), -1))


def choose_top_k(side, module, name, scores, k):
    """Indices (..., k) of the k largest scores along the last axis, largest first, int64.

    Among equal scores the lower index comes first, on both sides.  A discrete choice as in
    `choose`; a score's margin is that to its neighbours, the k-th's also that over the (k+1)-th.
    Raises ValueError for a k that is not from 1 to the number of scores.
    """
    label = _choice_label(module, name)
    count = scores.shape[-1]
    if not 1 <= k <= count:
        raise ValueError(Kind.TOP_K_OUT_OF_RANGE(label=label, k=str(k), count=count))
    order = side.order_of(scores.detach())
    return enter_choice(side, label, scores.detach(), order[..., :k])


def choose_order(side, module, name, scores):
    """Indices (..., N) that sort the scores along the last axis, largest first, int64.

    Equal scores keep their order.  A discrete choice as in `choose_top_k`, with all N of them.
    """
    return choose_top_k(side, module, name, scores, scores.shape[-1])


def enter_choice(side, label, scores, choice, kind=""):
    """Enter a choice (...) or (..., k) among scores (..., N) in the ledger; what to go on with.

    The largest scores are meant to be chosen, the larger first.  `kind` marks what was not asked
    for by name (common/sides/choices.py): one side alone may have it.
    """
    session = current()
    if session.is_graph:  # its scores have no values yet
        return choice
    key = session.prefix + label
    own = side.array(choice)
    if session.record is not None and not session.recomputing:
        several = {"whole": True} if own.ndim == scores.ndim else {}  # all scores are looked at
        session.record(f"{key}:scores", side.array(scores), **several)
        session.record(f"{key}:margin", margins(side.array(scores), own))
        session.record(key, own)
        for row in (key, f"{key}:margin", f"{key}:scores"):
            session.note_place(row, kind)
        session.seen.choices[key] = {"margin": f"{key}:margin", "scores": f"{key}:scores"}
    if (session.record is not None or session.keeps_choices) and not session.recomputing:
        session.choices[key] = own
    given = session.choices if session.recomputing else session.forced
    forced = None if given is None else given.get(key)
    if forced is None or forced.shape != own.shape or np.any(forced >= scores.shape[-1]):
        return choice  # among scores of another number there is nothing to force
    if session.record is not None and not np.array_equal(own, forced):
        session.seen.flips.append(key)
    return side.tensor(forced)


def _choice_label(module, name):
    label = current().label(join_site(module._site, name))
    if current().recomputing:
        raise RuntimeError(Kind.CHOSEN_AGAIN(label=label))
    return label


def draw_normal(side, module, name, shape, like):
    """N(0, 1) from the tape, with the dtype of `like`."""
    session = current()
    label = session.label(join_site(module._site, name))
    numbers = session.tape.normal(label, session.step, tuple(shape))
    return side.cast(side.tensor(numbers), like.dtype)


def draw_integers(side, module, name, shape, end):
    """Integers from 0 to below `end` from the tape, int64, each as likely as any other."""
    session = current()
    label = session.label(join_site(module._site, name), "draw")
    return side.tensor(session.tape.integers(label, session.step, tuple(shape), end))


def margins(scores: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """Return by how much each choice won: the distance to the scores next to it in their order.

    scores (..., N); choice (...) of a largest score or (..., k) of the k largest in their order.
    Returns the shape of `choice`, finite throughout: a score without another beside it has itself
    for a margin, and infinite scores have 0 among each other.
    """
    count = scores.shape[-1]
    k = choice.shape[-1] if choice.ndim == scores.ndim else 1
    if k < count:
        scores = np.partition(scores, count - k - 1, axis=-1)[..., count - k - 1 :]
    ordered = np.sort(scores, axis=-1)[..., ::-1]  # the k largest, and the next
    with np.errstate(invalid="ignore"):
        gaps = ordered[..., :-1] - ordered[..., 1:]
    size = np.where(np.isfinite(ordered), np.abs(ordered), 0)[..., :k]
    gaps = np.where(np.isnan(gaps), 0, gaps)
    above = np.concatenate([np.full_like(size[..., :1], np.inf), gaps[..., : k - 1]], axis=-1)
    below = gaps[..., :k]
    if below.shape[-1] < k:
        below = np.concatenate([below, np.full_like(size[..., :1], np.inf)], axis=-1)
    margin = np.minimum(above, below)
    margin = np.where(np.isfinite(margin), margin, size).astype(scores.dtype)
    return margin if choice.ndim == scores.ndim else margin[..., 0]
