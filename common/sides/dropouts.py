"""Dropout of any model, drawn from the tape.

    patch(side)           once in a process, before a model's file is imported
    follow(side, model)    the draws of this model get the names of its modules

`nn.Dropout` and its kin, `F.dropout` and its kin, the attention's own dropout and gradient
checkpointing then see the same draws on both sides, whichever of them a side uses.  What else a
model draws is random_functions.py's affair, or not on the tape: `random_state` tells whether it
drew so.
"""

import math
from functools import cache, partial

from twincheck.common.sides import instruments
from twincheck.common.sides.batch_norm import follow_statistics
from twincheck.common.sides.probes import hook_outputs
from twincheck.common.sides.session import current
from twincheck.common.system.aliases import under_its_names
from twincheck.common.system.intercept import Intercept, as_handle

_ALPHA = -1.7580993408473766  # SELU's value far below zero: -scale * alpha (Klambauer et al. 2017)
_UPSCALE = "upscale_in_train"  # Paddle's other mode scales in eval mode instead


@cache
def patch(side):
    """Put the tape before a framework's functional dropout, attention and checkpointing."""
    channels = _instead(side, side.dropout_of_channels, _drop)
    functions = {
        "dropout": _instead(side, side.dropout_of_values, _drop),
        "dropout1d": channels,
        "dropout2d": channels,
        "dropout3d": channels,
        "alpha_dropout": _instead(side, side.alpha_dropout, _drop_to_alpha),
        "feature_alpha_dropout": _instead(side, side.alpha_dropout, _drop_to_alpha, channels=True),
    }
    handles = {
        f"nn.functional.{name}": under_its_names(function, side.NAME)
        for name, function in functions.items()
    }
    attention = as_handle(partial(_attention, side))
    handles["nn.functional.scaled_dot_product_attention"] = attention
    handles[side.CHECKPOINT] = as_handle(_checkpoint)
    Intercept(side.lib, handles).put()


def _instead(side, arguments, drop, **more):
    """A function that takes the framework's arguments, of which `drop` gets what it needs."""

    def function(*given, **options):
        return drop(side, *arguments(*given, **options), **more)

    return function


# ---- which module runs --------------------------------------------------------------------------


def follow(side, model):
    """Keep track of which module runs; a BatchNorm in training logs its running statistics.

    A dropout layer draws under the name of the module that calls it, as F.dropout there would.
    """
    nn = side.lib.nn
    dropouts = tuple(getattr(nn, name) for name in dir(nn) if "Dropout" in name)
    called_through = (*dropouts, *side.CONTAINERS[:3], nn.Identity)
    for name, module in side.modules(model):
        if not isinstance(module, called_through):
            module.register_forward_pre_hook(partial(_enter, name))
            hook_outputs(module, _leave)
        if isinstance(module, (*side.BATCH_NORMS, *side.OLDER_BATCH_NORMS)):
            follow_statistics(side, name, module)
    return model


def _enter(name, module, inputs):
    current().running.append(name)


def _leave(module, inputs, outputs):
    current().running.pop()


# ---- the functions ------------------------------------------------------------------------------


def _drop(side, value, p, training, axes=None, mode=_UPSCALE):
    """Inverted dropout; where `axes` are given, the mask has length 1 along all others."""
    if p == 0.0 and training:
        current().note_idle(_site())
    if p == 0.0:
        return value
    if not training:
        return value if mode == _UPSCALE else value * (1.0 - p)
    shape = None
    if axes is not None:
        axes = [axes] if isinstance(axes, int) else axes
        shape = [n if i in axes else 1 for i, n in enumerate(value.shape)]
    kept = value * instruments.keep_mask(side, _site(), value, p, shape)
    return kept if mode != _UPSCALE or p == 1.0 else kept / (1.0 - p)


def _drop_to_alpha(side, value, p, training, channels=False):
    """Klambauer et al. 2017, section 3: dropped values become _ALPHA; mean and variance stay."""
    if training and p == 0.0:
        current().note_idle(_site())
    if not training or p == 0.0:
        return value
    shape = [n if i < 2 else 1 for i, n in enumerate(value.shape)] if channels else None
    keep = instruments.keep_mask(side, _site(), value, p, shape)
    a = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _ALPHA**2))
    return a * (value * keep + _ALPHA * (1.0 - keep)) - a * _ALPHA * p


def _attention(
    side, own, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *rest, **options
):
    """Attention with the tape's dropout on the weights, written out; without dropout as it was."""
    named = dict(zip(side.REST_OF_ATTENTION, rest, strict=False)) | options
    if dropout_p == 0.0 or not named.get("training", True):
        return own(query, key, value, attn_mask, dropout_p, is_causal, *rest, **options)
    query, key, value = (x.moveaxis(side.AXIS_OF_HEADS, 1) for x in (query, key, value))
    if named.get("enable_gqa", side.HEADS_MAY_SHARE_KEYS):
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scale = named.get("scale") or 1.0 / math.sqrt(query.shape[-1])
    scores = side.lib.matmul(query, key.moveaxis(-1, -2)) * scale  # (B, H, T, S)
    if is_causal:
        seen = side.lib.tril(side.lib.ones(list(scores.shape[-2:])))
        scores = scores.masked_fill(seen == 0, -math.inf)
    if attn_mask is not None and attn_mask.dtype == side.lib.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = _drop(side, side.lib.nn.functional.softmax(scores, -1), dropout_p, True)
    return side.lib.matmul(weights, value).moveaxis(1, side.AXIS_OF_HEADS)


def _checkpoint(own, function, *inputs, **options):
    """Gradient checkpointing whose recomputation repeats the first run's names and draws."""
    session = current()
    snapshots = []

    def run(*values, **named):
        if not snapshots:
            snapshots.append(session.snapshot())
            return function(*values, **named)
        with session.repeat(snapshots[0]):
            return function(*values, **named)

    return own(run, *inputs, **options)


def _site():
    site = current().site_of_draw()
    return f"{site}.dropout" if site else "dropout"
