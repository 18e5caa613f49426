"""Running statistics of one meaning: torch_batch_norm.py and paddle_batch_norm.py are twins.

torch keeps a BatchNorm's running variance with n / (n - 1), n being the values of a channel; Paddle
keeps it without, and its momentum in float32 alone.  After a training the two models would differ
by that much in eval mode.

Where several processes share a batch, each would take the statistics of its own samples; here they
take those of all.
"""

import numpy as np
import paddle
from paddle import autograd, nn

from common.sides.session import current

_OWN_MEANING = True  # twin: the running variance has no n / (n - 1) in Paddle
MEAN, VARIANCE = "_mean", "_variance"  # twin: names


def batch_norms(model):
    """The model's BatchNorms, which in training make the samples of a batch see each other."""
    kinds = tuple(getattr(nn, f"BatchNorm{n}D") for n in (1, 2, 3))  # twin: names
    return [module for module in model.sublayers(include_self=True) if isinstance(module, kinds)]


def by_batch(module):
    """True where a BatchNorm takes each batch's statistics: in training, unless it is frozen."""
    return module.training and not module._use_global_stats  # twin: names


def keeps_unbiased(module):
    """True for a BatchNorm whose running variance is kept with n / (n - 1)."""
    return not _OWN_MEANING or hasattr(module, "_keeps_unbiased_statistics")


def keep_unbiased_statistics(layer):
    """The BatchNorm, whose running statistics will have paddle's meaning on both sides.

    They are computed anew from each batch after the layer ran in training; a recomputation of the
    forward pass adds nothing, on either side.
    """
    layer._keeps_unbiased_statistics = True
    if not _OWN_MEANING:
        return layer
    former = []

    def before(module, inputs):
        former[:] = [module._mean.clone(), module._variance.clone()]

    def after(module, inputs, outputs):
        if not by_batch(module) or current().recomputing or _is_shared(module):
            return
        with paddle.no_grad():
            values = inputs[0].moveaxis(1 if module._data_format[1] == "C" else -1, 0)
            values = values.reshape([values.shape[0], -1])  # (channels, n)
            mean = values.mean(axis=-1)
            moved = values - mean.unsqueeze(-1)
            seen = [mean, (moved * moved).sum(axis=-1) / max(values.shape[1] - 1, 1)]
            kept = (module._mean, module._variance)
            for statistic, was, now in zip(kept, former, seen, strict=True):
                statistic.set_value(module._momentum * was + (1.0 - module._momentum) * now)

    layer.register_forward_pre_hook(before)
    layer.register_forward_post_hook(after)
    return layer


class _Sum(autograd.PyLayer):
    """The sum over the processes, whose gradient is summed too."""

    group = None

    @staticmethod
    def forward(ctx, value):
        return _Sum.group.sum(value)

    @staticmethod
    def backward(ctx, gradient):
        return _Sum.group.sum(gradient)


def share_statistics(model, group):
    """In training the BatchNorms take the statistics of all processes' samples from now on."""
    _Sum.group = group
    for module in batch_norms(model):
        module._own_forward = module.forward
        module.forward = lambda value, module=module: _normalized(module, value)


def _is_shared(module):
    """True where a batch is shared now by several processes."""
    share = getattr(current().tape, "share", None)
    return hasattr(module, "_own_forward") and share is not None and share.count > 1


def _normalized(module, value):
    """The BatchNorm's output for this process's samples (B, C, ...), by the statistics of all."""
    if not by_batch(module) or not _is_shared(module):
        return module._own_forward(value)
    axis = 1 if module._data_format[1] == "C" else -1  # twin: where the channels are
    values = value.moveaxis(axis, 0)
    shape = list(values.shape)
    values = values.reshape([shape[0], -1])  # (channels, n)
    count = paddle.ones_like(values[:1]).sum(axis=-1)
    sums = _Sum.apply(paddle.concat([values.sum(axis=-1), count]))
    count = module._of_all_processes = float(sums[-1])
    mean = sums[:-1] / count
    moved = values - mean.unsqueeze(-1)
    variance = _Sum.apply((moved * moved).sum(axis=-1)) / count
    epsilon = module._epsilon  # twin: names
    scaled = moved / paddle.sqrt(variance + epsilon).unsqueeze(-1)
    if module.weight is not None:
        scaled = scaled * module.weight.unsqueeze(-1)
    if module.bias is not None:
        scaled = scaled + module.bias.unsqueeze(-1)
    with paddle.no_grad():
        _keep(module, mean, variance, count)
    return scaled.reshape(shape).moveaxis(0, axis)


def _keep(module, mean, variance, count):
    """Move the running statistics as the layer itself, or `keep_unbiased_statistics`, would."""
    if getattr(module, VARIANCE) is None:
        return
    exact = hasattr(module, "_keeps_unbiased_statistics")  # twin: momentum
    if current().recomputing and exact:  # twin: momentum
        return  # twin: momentum
    kept = module._momentum  # twin: momentum
    new = 1.0 - (kept if exact else float(np.float32(kept)))  # twin: momentum
    if keeps_unbiased(module):
        variance = variance * (count / max(count - 1.0, 1.0))
    for name, now in ((MEAN, mean), (VARIANCE, variance)):
        statistic = getattr(module, name)
        statistic.set_value((1.0 - new) * statistic + new * now)  # twin: another name
