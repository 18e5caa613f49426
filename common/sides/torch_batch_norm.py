"""A running variance of one meaning: torch_batch_norm.py and paddle_batch_norm.py are twins.

torch keeps a BatchNorm's running variance with n / (n - 1), n being the values of a channel; Paddle
keeps it without.  After a training the two would differ by that much in eval mode.
"""

from common.sides.session import current

_BIASED = False  # twin: the running variance is that of the sample, without n / (n - 1)
_VARIANCE = "running_var"  # twin: names


def keep_unbiased_variance(layer):
    """The BatchNorm, whose running variance will have torch's meaning on both sides.

    Each batch's part of it is multiplied by n / (n - 1) after the layer ran in training; a
    recomputation of the forward pass adds nothing, on either side.
    """
    layer._keeps_unbiased_variance = True
    if not _BIASED:
        return layer
    kept = {}

    def before(module, inputs):
        kept["before"] = getattr(module, _VARIANCE).clone()

    def after(module, inputs, outputs):
        if not module.training or current().recomputing:
            return
        variance = getattr(module, _VARIANCE)
        count = inputs[0].size // variance.size
        seen = variance - module._momentum * kept["before"]  # (1 - momentum) * biased variance
        unbiased = module._momentum * kept["before"] + seen * (count / max(count - 1, 1))
        variance.set_value(unbiased)

    layer.register_forward_pre_hook(before)
    layer.register_forward_hook(after)
    return layer
