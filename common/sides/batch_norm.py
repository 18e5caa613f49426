"""Running statistics of one meaning on both sides, and as rows of a log.

torch keeps a BatchNorm's running variance with n / (n - 1), n being the values of a channel; Paddle
keeps it without, and its momentum in float32 alone.  After a training the two models would differ
by that much in eval mode.
"""

import math
from contextlib import contextmanager
from functools import cache, partial
from weakref import WeakKeyDictionary

import numpy as np

from twincheck.common.sides.probes import hook_inputs, hook_outputs
from twincheck.common.sides.session import current
from twincheck.common.system.intercept import Intercept

_NAMES = ("running_mean", "running_var")  # torch's, and those of the rows
_FOLLOWED = WeakKeyDictionary()  # BatchNorm that keeps statistics -> its name in its model


def keep_unbiased_statistics(side, layer):
    """The BatchNorm, whose running statistics will have torch's meaning on both sides.

    They are computed anew from each batch after the layer ran in training; a recomputation of the
    forward pass adds nothing, on either side.
    """
    layer._keeps_unbiased_statistics = True
    if not side.BIASED_VARIANCE:
        return layer
    former = []

    def before(module, inputs, keywords):
        former[:] = [module._mean.clone(), module._variance.clone(), *inputs, *keywords.values()]

    def after(module, inputs, outputs):
        if not side.by_batch(module) or current().recomputing:
            return
        with side.no_grad():
            values = former[2].moveaxis(1 if module._data_format[1] == "C" else -1, 0)
            values = values.reshape([values.shape[0], -1])  # (channels, n)
            mean = values.mean(-1)
            moved = values - mean.unsqueeze(-1)
            seen = [mean, (moved * moved).sum(-1) / max(values.shape[1] - 1, 1)]
            kept = (module._mean, module._variance)
            for statistic, was, now in zip(kept, former, seen, strict=False):
                statistic.set_value(module._momentum * was + (1.0 - module._momentum) * now)

    hook_inputs(layer, before)
    hook_outputs(layer, after)
    return layer


# ---- in a log ------------------------------------------------------------------------------------


@cache
def patch(side):
    """Stand before the operator that moves running statistics, whoever calls it with a layer's."""
    Intercept(side.lib, {side.BATCH_NORM: partial(_batch_norm, side)}).put()


def _batch_norm(side, own, arguments, options):
    """What the operator gives; statistics of a layer that it moved are logged."""
    if current().is_graph:
        return own(*arguments, **options)
    value, mean, by_batch, old = side.of_batch_norm(*arguments, **options)
    held = (m for m in _FOLLOWED if mean is not None and getattr(m, side.MEAN, None) is mean)
    module = next(held, None) if by_batch else None
    if module is None:
        return own(*arguments, **options)
    _before(side, module)
    count = math.prod(value.shape) / mean.shape[0]
    result = own(*arguments, **options)
    # What `keep_unbiased_statistics` makes of them comes behind the layer.
    if not (current().recomputing or side.BIASED_VARIANCE and side.keeps_unbiased(module)):
        _settle(side, module, *((count, old) if side.BIASED_VARIANCE else ()))
    return result


def follow_statistics(side, name, module):
    """Log a BatchNorm's statistics after each call in training, if it keeps any."""
    if getattr(module, side.VARIANCE) is None:
        return
    # Before a call, and behind it: the variance with torch's meaning.
    kept = module._statistics = {}
    _FOLLOWED[module] = name

    def before(module, inputs):
        kept["settled"] = False

    def after(module, inputs, outputs):
        if not side.by_batch(module) or current().recomputing:
            return
        if current().is_graph:  # a graph that is there keeps it
            count = math.prod(outputs.shape) / getattr(module, side.VARIANCE).shape[0]
            module.__dict__["_count"] = count
        elif not kept["settled"]:  # a layer's own code has moved them
            _settle(side, module)

    module.register_forward_pre_hook(before)
    hook_outputs(module, after)


def _before(side, module):
    kept = module._statistics
    kept["before"] = side.array(getattr(module, side.VARIANCE)).copy()
    kept.setdefault("running_var", kept["before"])


def _settle(side, module, count=None, old=None):
    """Log what the statistics are now, the variance in torch's meaning.

    count  how many values of a channel Paddle's operator took
    old    which part of them it kept; None: they have that meaning
    """
    session, kept = current(), module._statistics
    kept["settled"] = True
    kept["running_mean"] = side.array(getattr(module, side.MEAN)).copy()
    variance = side.array(getattr(module, side.VARIANCE)).copy()
    if old is not None:
        seen = variance - old * kept["before"]  # (1 - old) * biased
        seen = seen * count / max(count - 1, 1)
        variance = old * kept["running_var"] + seen
    kept["running_var"] = variance
    if session.record is None or not session.wants_probes:
        return
    for statistic in _NAMES:
        key = session.prefix + session.label(f"{_FOLLOWED[module]}:{statistic}")
        session.record(key, kept[statistic].copy())
        session.note_place(key, type(module).__name__)
    means = [float(v.mean()) for v in (side.array(getattr(module, side.VARIANCE)), variance)]
    if old is not None and all(0 <= mean < 1e12 for mean in means):
        session.seen.variances[key] = dict(
            zip(("n", "held", "compared"), (count, *means), strict=True)
        )


@contextmanager
def statistics_of_graph(side, model):
    """Inside, a graph of the model runs: statistics have values before it and behind it alone."""
    around = [module for _, module in side.modules(model) if module in _FOLLOWED]
    kept = [[side.array(v).copy() for v in _statistics(side, module)] for module in around]
    for module in around:
        _before(side, module)
    yield
    for module, former in zip(around, kept, strict=True):
        if side.by_batch(module) and "_count" in module.__dict__:
            _with_whole_momentum(side, module, former)
            of_paddle = not side.keeps_unbiased(module)
            _settle(side, module, *((module._count, module._momentum) if of_paddle else ()))


def _statistics(side, module):
    return getattr(module, side.MEAN), getattr(module, side.VARIANCE)


def _with_whole_momentum(side, module, former):
    """Undo what Paddle makes of a momentum by keeping it in float32, in a float64 run."""
    for value, before in zip(_statistics(side, module), former, strict=True):
        if side.BIASED_VARIANCE and before.dtype == np.float64:
            narrow = float(np.float32(module._momentum))
            new = (side.array(value) - narrow * before) / (1.0 - narrow)
            side.assign(value, module._momentum * before + (1.0 - module._momentum) * new)


def _kept(module):
    return getattr(module, "_statistics", {})


@contextmanager
def unbiased_variances(side, model):
    """Inside, BatchNorms normalise by running variances with n / (n - 1); yields if any do."""
    own = []
    for _, module in side.modules(model):
        if "running_mean" in _kept(module):
            value = getattr(module, side.VARIANCE)
            own.append((value, side.array(value).copy(), _kept(module)["running_var"]))
    own = [each for each in own if not np.array_equal(*each[1:])]
    for value, _, meant in own:
        side.assign(value, meant)
    try:
        yield bool(own)
    finally:
        for value, before, _ in own:
            side.assign(value, before)


def running_statistics(side, model):
    """(`NORM:running_mean`, array) of what ran in training, the variance in torch's meaning."""
    for name, module in side.modules(model):
        kept = _kept(module)
        yield from ((f"{name}:{key}", kept[key]) for key in _NAMES if "running_mean" in kept)


def recall_statistics(side, model, arrays):
    """Go on as the model did whose `running_statistics` these are, anew where there are none.

    Its state is the caller's.
    """
    for name, module in side.modules(model):
        kept = _kept(module)
        kept.clear()
        found = {key: arrays.get(f"{name}:{key}") for key in _NAMES}
        if all(values is not None for values in found.values()):
            kept.update(found)
