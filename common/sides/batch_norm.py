"""Running statistics of one meaning on both sides, and as rows of a log.

torch keeps a BatchNorm's running variance with n / (n - 1), n being the values of a channel; Paddle
keeps it without, and its momentum in float32 alone.  After a training the two models would differ
by that much in eval mode.

Where several processes share a batch, each would take the statistics of its own samples; here they
take those of all.
"""

import math
from contextlib import contextmanager
from functools import cache

import numpy as np

from twincheck.common.sides.session import current

_NAMES = ("running_mean", "running_var")  # torch's, and those of the rows


def batch_norms(side, model):
    """The model's BatchNorms, which in training make the samples of a batch see each other."""
    return [module for _, module in side.modules(model) if isinstance(module, side.BATCH_NORMS)]


def keeps_unbiased(side, module):
    """True for a BatchNorm whose running variance is kept with n / (n - 1)."""
    return not side.BIASED_VARIANCE or hasattr(module, "_keeps_unbiased_statistics")


def keep_unbiased_statistics(side, layer):
    """The BatchNorm, whose running statistics will have torch's meaning on both sides.

    They are computed anew from each batch after the layer ran in training; a recomputation of the
    forward pass adds nothing, on either side.
    """
    layer._keeps_unbiased_statistics = True
    if not side.BIASED_VARIANCE:
        return layer
    former = []

    def before(module, inputs):
        former[:] = [module._mean.clone(), module._variance.clone()]

    def after(module, inputs, outputs):
        if not side.by_batch(module) or current().recomputing or _is_shared(module):
            return
        with side.no_grad():
            values = inputs[0].moveaxis(side.channels_axis(module), 0)
            values = values.reshape([values.shape[0], -1])  # (channels, n)
            mean = values.mean(-1)
            moved = values - mean.unsqueeze(-1)
            seen = [mean, (moved * moved).sum(-1) / max(values.shape[1] - 1, 1)]
            kept = (module._mean, module._variance)
            for statistic, was, now in zip(kept, former, seen, strict=True):
                statistic.set_value(module._momentum * was + (1.0 - module._momentum) * now)

    layer.register_forward_pre_hook(before)
    side.hook_outputs(layer, after)
    return layer


@cache
def _sum(side):
    class Sum(side.FUNCTION):
        """The sum over the processes of `group`, whose gradient is summed too."""

        @staticmethod
        def forward(ctx, value):
            return Sum.group.sum(value)

        @staticmethod
        def backward(ctx, gradient):
            return Sum.group.sum(gradient)

    return Sum


def share_statistics(side, model, group):
    """In training the BatchNorms take the statistics of all processes' samples from now on."""
    _sum(side).group = group
    for module in side.batch_norms(model):
        module._own_forward = module.forward
        module.forward = lambda value, module=module: _normalized(side, module, value)


def _is_shared(module):
    """True where a batch is shared now by several processes."""
    share = getattr(current().tape, "share", None)
    return hasattr(module, "_own_forward") and share is not None and share.count > 1


def _normalized(side, module, value):
    """The BatchNorm's output for this process's samples (B, C, ...), by the statistics of all."""
    if not side.by_batch(module) or not _is_shared(module):
        return module._own_forward(value)
    axis = side.channels_axis(module)
    values = value.moveaxis(axis, 0)
    shape = list(values.shape)
    values = values.reshape([shape[0], -1])  # (channels, n)
    count = side.lib.ones_like(values[:1]).sum(-1)
    sums = _sum(side).apply(side.lib.concat([values.sum(-1), count]))
    count = module._of_all_processes = float(sums[-1])
    mean = sums[:-1] / count
    moved = values - mean.unsqueeze(-1)
    variance = _sum(side).apply((moved * moved).sum(-1)) / count
    scaled = moved / side.lib.sqrt(variance + getattr(module, side.EPSILON)).unsqueeze(-1)
    if module.weight is not None:
        scaled = scaled * module.weight.unsqueeze(-1)
    if module.bias is not None:
        scaled = scaled + module.bias.unsqueeze(-1)
    with side.no_grad():
        _keep(side, module, mean, variance, count)
    return scaled.reshape(shape).moveaxis(0, axis)


def _keep(side, module, mean, variance, count):
    """Move the running statistics as the layer itself, or `keep_unbiased_statistics`, would."""
    repeated = current().recomputing and hasattr(module, "_keeps_unbiased_statistics")
    if getattr(module, side.VARIANCE) is None or side.BIASED_VARIANCE and repeated:
        return
    new = side.part_of_new(module)
    if side.keeps_unbiased(module):
        variance = variance * (count / max(count - 1.0, 1.0))
    for name, now in ((side.MEAN, mean), (side.VARIANCE, variance)):
        statistic = getattr(module, name)
        statistic.copy_((1.0 - new) * statistic + new * now, False)


# ---- in a log ------------------------------------------------------------------------------------


def follow_statistics(side, name, module):
    """Log a BatchNorm's statistics after each call in training, if it keeps any."""
    if getattr(module, side.VARIANCE) is None:
        return
    # Before a call, and behind it: the variance with torch's meaning.
    kept = module._statistics = {}

    def before(module, inputs=None):
        kept["before"] = side.array(getattr(module, side.VARIANCE)).copy()
        kept.setdefault("running_var", kept["before"])

    def after(module, inputs, outputs):
        if not side.by_batch(module) or current().recomputing:
            return
        count = math.prod(inputs[0].shape) / getattr(module, side.VARIANCE).shape[0]
        module.__dict__["_count"] = module.__dict__.pop("_of_all_processes", count)
        if not current().is_graph:
            settle()

    def settle():
        session, count = current(), module.__dict__["_count"]  # a graph that is there keeps it
        kept["running_mean"] = side.array(getattr(module, side.MEAN)).copy()
        variance = side.array(getattr(module, side.VARIANCE)).copy()
        if not side.keeps_unbiased(module):
            seen = variance - module._momentum * kept["before"]  # (1 - momentum) * biased
            seen = seen * count / max(count - 1, 1)
            variance = module._momentum * kept["running_var"] + seen
        kept["running_var"] = variance
        if session.record is None or not session.wants_probes:
            return
        for statistic in _NAMES:
            key = session.prefix + session.label(f"{name}:{statistic}")
            session.record(key, kept[statistic].copy())
            session.note_place(key, type(module).__name__)

    module.register_forward_pre_hook(lambda m, inputs: None if current().is_graph else before(m))
    side.hook_outputs(module, after)
    module.__dict__["_around_graph"] = before, settle


@contextmanager
def statistics_of_graph(side, model):
    """Inside, a graph of the model runs: statistics have values before it and behind it alone."""
    followed = (m for _, m in side.modules(model) if "_around_graph" in m.__dict__)
    around = [(m, *m.__dict__["_around_graph"]) for m in followed]
    kept = [[side.array(v).copy() for v in _statistics(side, m)] for m, *_ in around]
    for module, before, _ in around:
        before(module)
    yield
    for (module, _, settle), former in zip(around, kept, strict=True):
        if side.by_batch(module):
            _with_whole_momentum(side, module, former)
            settle()


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
