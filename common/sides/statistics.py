"""Running statistics of a model's BatchNorms, as rows of a log: in torch's meaning on both sides.

torch keeps the variance with n / (n - 1), Paddle that without, n being the values of a channel.
"""

import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from common.sides.session import current

NAMES = ("running_mean", "running_var")  # torch's, and those of the rows


@dataclass(frozen=True)
class Statistics:
    """How a framework's BatchNorms keep their statistics, and what is done with these.

    mean, variance  names of the buffers
    biased          the running variance is that of the sample, without n / (n - 1)
    array, assign   as in torch_side and paddle_side
    by_batch        likewise
    """

    mean: str
    variance: str
    biased: bool
    array: Callable
    assign: Callable
    by_batch: Callable

    def follow(self, name, module, before_call, after_call):
        """Log a BatchNorm's statistics after each call in training, if it keeps any.

        before_call, after_call  register a hook, in the framework's names
        """
        if getattr(module, self.variance) is None:
            return
        # Before a call, and behind it: the variance with torch's meaning.
        kept = module._statistics = {}

        def before(module, inputs):
            kept["before"] = self.array(getattr(module, self.variance)).copy()
            kept.setdefault("running_var", kept["before"])

        def after(module, inputs, outputs):
            session = current()
            if not self.by_batch(module) or session.recomputing:
                return
            kept["running_mean"] = self.array(getattr(module, self.mean)).copy()
            variance = self.array(getattr(module, self.variance)).copy()
            if self.biased and not hasattr(module, "_keeps_unbiased_statistics"):
                count = math.prod(inputs[0].shape) / variance.size
                count = module.__dict__.pop("_of_all_processes", count)
                seen = variance - module._momentum * kept["before"]  # (1 - momentum) * biased
                seen = seen * count / max(count - 1, 1)
                variance = module._momentum * kept["running_var"] + seen
            kept["running_var"] = variance
            if session.record is None or not session.probing:
                return
            for statistic in NAMES:
                key = session.prefix + session.label(f"{name}:{statistic}")
                session.record(key, kept[statistic].copy())
                session.note_place(key, type(module).__name__)

        before_call(before)
        after_call(after)

    @contextmanager
    def unbiased(self, modules):
        """Inside, BatchNorms normalise by running variances with n / (n - 1); yields if any do."""
        own = []
        for _, module in modules:
            value, kept = getattr(module, self.variance, None), getattr(module, "_statistics", {})
            if "running_mean" in kept:
                own.append((value, self.array(value).copy(), kept["running_var"]))
        own = [each for each in own if not np.array_equal(*each[1:])]
        for value, _, meant in own:
            self.assign(value, meant)
        try:
            yield bool(own)
        finally:
            for value, before, _ in own:
                self.assign(value, before)


def running(modules):
    """(`NORM:running_mean`, array) of what ran in training, the variance in torch's meaning."""
    for name, module in modules:
        kept = getattr(module, "_statistics", {})
        yield from ((f"{name}:{key}", kept[key]) for key in NAMES if "running_mean" in kept)


def recall(modules, arrays):
    """Go on as the model did whose `running` statistics these are, anew where there are none.

    Its state is the caller's.
    """
    for name, module in modules:
        kept = getattr(module, "_statistics", {})
        kept.clear()
        found = {key: arrays.get(f"{name}:{key}") for key in NAMES}
        if all(values is not None for values in found.values()):
            kept.update(found)
