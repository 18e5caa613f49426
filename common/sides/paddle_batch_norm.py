"""Running statistics of one meaning: torch_batch_norm.py and paddle_batch_norm.py are twins.

torch keeps a BatchNorm's running variance with n / (n - 1), n being the values of a channel; Paddle
keeps it without, and its momentum in float32 alone.  After a training the two models would differ
by that much in eval mode.
"""

import paddle
from paddle import nn

from common.sides.session import current

_OWN_MEANING = True  # twin: the running variance has no n / (n - 1) in Paddle
VARIANCE = "_variance"  # twin: names


def batch_norms(model):
    """The model's BatchNorms, which in training make the samples of a batch see each other."""
    kinds = tuple(getattr(nn, f"BatchNorm{n}D") for n in (1, 2, 3))  # twin: names
    return [module for module in model.sublayers(include_self=True) if isinstance(module, kinds)]


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
        if not module.training or current().recomputing:
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
