"""Running statistics of a model's BatchNorms, as rows of a log: in torch's meaning on both sides.

torch keeps the variance with n / (n - 1), Paddle that without, n being the values of a channel.
"""

import math
from contextlib import contextmanager

import numpy as np

from common.sides.hooks import hook_outputs
from common.sides.session import current

_NAMES = ("running_mean", "running_var")  # torch's, and those of the rows


def follow_statistics(side, name, module):
    """Log a BatchNorm's statistics after each call in training, if it keeps any."""
    if getattr(module, side.VARIANCE) is None:
        return
    # Before a call, and behind it: the variance with torch's meaning.
    kept = module._statistics = {}

    def before(module, inputs):
        kept["before"] = side.array(getattr(module, side.VARIANCE)).copy()
        kept.setdefault("running_var", kept["before"])

    def after(module, inputs, outputs):
        session = current()
        if not side.by_batch(module) or session.recomputing:
            return
        kept["running_mean"] = side.array(getattr(module, side.MEAN)).copy()
        variance = side.array(getattr(module, side.VARIANCE)).copy()
        if not side.keeps_unbiased(module):
            count = math.prod(inputs[0].shape) / variance.size
            count = module.__dict__.pop("_of_all_processes", count)
            seen = variance - module._momentum * kept["before"]  # (1 - momentum) * biased
            seen = seen * count / max(count - 1, 1)
            variance = module._momentum * kept["running_var"] + seen
        kept["running_var"] = variance
        if session.record is None or not session.probing:
            return
        for statistic in _NAMES:
            key = session.prefix + session.label(f"{name}:{statistic}")
            session.record(key, kept[statistic].copy())
            session.note_place(key, type(module).__name__)

    module.register_forward_pre_hook(before)
    hook_outputs(module, after)


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
