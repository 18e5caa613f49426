"""Dropout of any model, drawn from the tape: torch_dropout.py and paddle_dropout.py are twins.

    patch()         once in a process, before a model's file is imported
    follow(model)   the draws of this model get the names of its modules

`nn.Dropout` and its kin, `F.dropout` and its kin, the attention's own dropout and gradient
checkpointing then see the same draws on both sides, whichever of them a side uses.  What else a
model draws is torch_draws.py's and paddle_draws.py's affair, or not on the tape: `random_state`
tells whether it drew so.
"""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.distributed.fleet import utils as recomputing  # twin: where it is

from common.sides import statistics
from common.sides.session import current
from common.sides.paddle_side import NAME, array, assign, by_batch, keep_mask
from common.system.aliases import under_its_names

_ALPHA = -1.7580993408473766  # SELU's value far below zero: -scale * alpha (Klambauer et al. 2017)
_UPSCALE = "upscale_in_train"  # Paddle's other mode scales in eval mode instead
_DROPOUTS = tuple(getattr(nn, n) for n in dir(nn) if "Dropout" in n)
_CALLED_THROUGH = (*_DROPOUTS, nn.Sequential, nn.LayerList, nn.LayerDict, nn.Identity)
_BATCH_NORMS = (nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D, nn.BatchNorm)  # twin: names
_KEPT = "_mean", "_variance", True  # twin: names, and what the variance is
_STATISTICS = statistics.Statistics(*_KEPT, array, assign, by_batch)
# What attention may be given by position behind its first six arguments.
_REST = ("training", "backend", "scale", "enable_gqa", "name")  # twin: positions
_GROUPED = True  # twin: whether heads may share keys without being told
_original = {}


def patch():
    """Put the tape behind this framework's functional dropout, attention and checkpointing."""
    if _original:
        return
    functions = {
        "dropout": _dropout,
        "dropout1d": _dropout_channels,
        "dropout2d": _dropout_channels,
        "dropout3d": _dropout_channels,
        "alpha_dropout": _alpha_dropout,
        "feature_alpha_dropout": _feature_alpha_dropout,
        "scaled_dot_product_attention": _attention,
    }
    for name in filter(lambda name: hasattr(F, name), functions):
        _original[name] = getattr(F, name)
        setattr(F, name, under_its_names(functions[name], NAME))
    _original["checkpoint"] = recomputing.recompute  # twin: names
    recomputing.recompute = _checkpoint  # twin: names


def random_state():
    """The framework's own random state on CPU, as bytes."""
    words = str(paddle.get_rng_state()[0]).split()  # twin: what it is
    return " ".join(w for w in words if not w.startswith("0x")).encode()  # twin: what it is


# ---- which module runs --------------------------------------------------------------------------


def follow(model):
    """Keep track of which module runs; a BatchNorm in training logs its running statistics.

    A dropout layer draws under the name of the module that calls it, as F.dropout there would.
    """
    for name, module in model.named_sublayers(include_self=True):
        if not isinstance(module, _CALLED_THROUGH):
            _follow_one(name, module)
        if isinstance(module, _BATCH_NORMS):
            later = module.register_forward_post_hook  # twin: names
            _STATISTICS.follow(name, module, module.register_forward_pre_hook, later)
    return model


def _follow_one(name, module):
    def before(module, inputs):
        current().running.append(name)

    def after(module, inputs, outputs):
        current().running.pop()

    module.register_forward_pre_hook(before)
    module.register_forward_post_hook(after)


def running_statistics(model):
    """(`NORM:running_mean`, array) of what ran in training, the variance in torch's meaning."""
    return statistics.running(model.named_sublayers(include_self=True))


def unbiased_variances(model):
    """Inside, BatchNorms normalise by running variances with n / (n - 1); gives if any do."""
    return _STATISTICS.unbiased(model.named_sublayers(include_self=True))


def recall_statistics(model, arrays):
    """Go on as the model did whose `running_statistics` these are; its state is the caller's."""
    statistics.recall(model.named_sublayers(include_self=True), arrays)


# ---- the functions ------------------------------------------------------------------------------


def _dropout(x, p=0.5, axis=None, training=True, *_, mode=_UPSCALE, **options):  # twin: arguments
    return _drop(x, p, training, axis, mode)  # twin: arguments


def _dropout_channels(x, p=0.5, training=True, data_format="NC", name=None):  # twin: arguments
    return _drop(x, p, training, (0, data_format.index("C")))  # twin: arguments


def _drop(value, p, training, axes=None, mode=_UPSCALE):
    """Inverted dropout; where `axes` are given, the mask has length 1 along all others."""
    if p == 0.0:
        return value
    if not training:
        return value if mode == _UPSCALE else value * (1.0 - p)
    shape = None
    if axes is not None:
        axes = [axes] if isinstance(axes, int) else axes
        shape = [n if i in axes else 1 for i, n in enumerate(value.shape)]
    kept = value * keep_mask(_site(), value, p, shape)
    return kept if mode != _UPSCALE or p == 1.0 else kept / (1.0 - p)


def _alpha_dropout(x, p=0.5, training=True, *rest, **options):  # twin: arguments
    return _drop_to_alpha(x, p, training)  # twin: arguments


def _feature_alpha_dropout(x, p=0.5, training=True, *rest, **options):  # twin: arguments
    return _drop_to_alpha(x, p, training, channels=True)  # twin: arguments


def _drop_to_alpha(value, p, training, channels=False):
    """Klambauer et al. 2017, section 3: dropped values become _ALPHA; mean and variance stay."""
    if not training or p == 0.0:
        return value
    shape = [n if i < 2 else 1 for i, n in enumerate(value.shape)] if channels else None
    keep = keep_mask(_site(), value, p, shape)
    a = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _ALPHA**2))
    return a * (value * keep + _ALPHA * (1.0 - keep)) - a * _ALPHA * p


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *rest, **options):
    """Attention with the tape's dropout on the weights, written out; without dropout as it was."""
    named = dict(zip(_REST, rest, strict=False)) | options
    if dropout_p == 0.0 or not named.get("training", True):
        plain = _original["scaled_dot_product_attention"]
        return plain(query, key, value, attn_mask, dropout_p, is_causal, *rest, **options)
    query, key, value = (x.moveaxis(1, 2) for x in (query, key, value))  # twin: layout
    if named.get("enable_gqa", _GROUPED):
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scale = named.get("scale") or 1.0 / math.sqrt(query.shape[-1])
    scores = paddle.matmul(query, key.moveaxis(-1, -2)) * scale  # (B, H, T, S)
    if is_causal:
        seen = paddle.tril(paddle.ones(list(scores.shape[-2:])))
        scores = scores.masked_fill(seen == 0, -math.inf)
    if attn_mask is not None and attn_mask.dtype == paddle.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = _drop(F.softmax(scores, axis=-1), dropout_p, True)
    return paddle.matmul(weights, value).moveaxis(1, 2)  # twin: layout


def _checkpoint(function, *inputs, **options):
    """Gradient checkpointing whose recomputation repeats the first run's names and draws."""
    session = current()
    snapshots = []

    def run(*values, **named):
        if not snapshots:
            snapshots.append(session.snapshot())
            return function(*values, **named)
        with session.repeat(snapshots[0]):
            return function(*values, **named)

    return _original["checkpoint"](run, *inputs, **options)


def _site():
    site = current().site_of_draw()
    return f"{site}.dropout" if site else "dropout"
