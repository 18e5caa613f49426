"""What model.py needs beside Paddle: random numbers, discrete choices, cross-entropy.

Every random number (a dropout's mask, a hash's rotations) depends on the seed, the step and the
name of the layer that draws it, and on nothing else: the comments in model.py call this the tape.
So a layer that is computed again for its gradient sees the same numbers, on any device.
`begin(seed, step)` starts a step; a layer's second call in one step draws other numbers.
"""

import hashlib
import math
from contextlib import contextmanager

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: F401  (the losses use it: publish/source.py)

# From so many values on, normal numbers are drawn in blocks.
LARGE = 1 << 18
BLOCK = 1 << 20


class Step:
    """The seed and number of the step that runs now, and how often each layer drew in it."""

    def __init__(self):
        self.recomputing = False  # True while a part is computed again for its gradient
        self.probing = False  # nothing looks inside here
        self.begin(0, 0)

    def begin(self, seed, step):
        """Start a step: calls are counted from one again."""
        self.seed, self.number = seed, step
        self.call, self.counts = 0, {}

    def generator(self, site):
        """A NumPy generator of its own for a name."""
        digest = hashlib.sha256(f"{self.seed}|{site}|{self.number}".encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))

    def label(self, site, what=""):
        """The name of this call: `site`, then `site#2`, …; `what` counts by itself."""
        name = f"{what}:{site}" if what else site
        count = self.counts[name] = self.counts.get(name, 0) + 1
        call = f"@{self.call + 1}" if self.call else ""
        return site + call + (f"#{count}" if count > 1 else "")

    def next_call(self, site):
        """The number of this call of a part that will be computed again, from 0."""
        name = f"call:{site}"
        self.counts[name] = self.counts.get(name, -1) + 1
        return self.counts[name]

    @contextmanager
    def scope(self, call, recompute=False):
        """A part whose calls count by themselves, so that computing it again repeats its draws."""
        saved = self.call, self.counts, self.recomputing
        self.call, self.counts, self.recomputing = call, {}, recompute
        try:
            yield
        finally:
            self.call, self.counts, self.recomputing = saved


_step = Step()


def current():
    """The step that runs now."""
    return _step


def begin(seed=0, step=0):
    """Start the random numbers of a step: those here, and those of Paddle's own generator."""
    _step.begin(seed, step)
    paddle.seed(seed * 1_000_003 + step)


def named(model):
    """Tell every layer its qualified name, by which it draws."""
    for name, layer in model.named_sublayers(include_self=True):
        layer._site = name
    return model


def join_site(site, name):
    """The name of something inside a layer."""
    return f"{site}.{name}" if site else name


def tap(layer, name, value):
    """The value itself: model.py names its intermediate values with this."""
    return value


def watch(value):
    """Ask for the gradient of a tensor; returns the tensor."""
    if paddle.is_floating_point(value):
        value.stop_gradient = False
    return value


def dropout(layer, name, value, p, mask_shape=None):
    """Dropout in training; the identity in eval mode.  `mask_shape` broadcasts to the value's."""
    if not layer.training or p == 0.0:
        return value
    label = _step.label(join_site(layer._site, name), "draw")
    shape = tuple(value.shape if mask_shape is None else mask_shape)
    keep = _step.generator(label).random(shape, dtype=np.float32) >= np.float32(p)
    return value * paddle.to_tensor(keep).astype(value.dtype) / (1.0 - p)


def draw_normal(layer, name, shape, like):
    """N(0, 1) of a shape, with the dtype of `like`."""
    values = normal_numbers(_step.label(join_site(layer._site, name)), tuple(shape))
    return paddle.to_tensor(values).astype(like.dtype)


@paddle.jit.not_to_static  # a saved program gets the numbers, not the drawing
def normal_numbers(label, shape):
    """The numbers of a draw, in the default dtype."""
    if math.prod(shape) < LARGE:
        values = _step.generator(label).standard_normal(shape)
    else:
        values = np.empty(math.prod(shape), np.float32)
        for first in range(0, values.size, BLOCK):
            block = _step.generator(f"{label}/block {first // BLOCK}")
            block.standard_normal(None, np.float32, values[first : first + BLOCK])
        values = values.reshape(shape)
    return values.astype(str(paddle.get_default_dtype()).replace("paddle.", ""))


def draw_integers(layer, name, shape, end):
    """Integers from 0 to below `end`, int64, each as likely as any other."""
    return tensor(integers_below(_step.label(join_site(layer._site, name), "draw"), shape, end))


@paddle.jit.not_to_static  # a saved program gets the numbers, not the drawing
def integers_below(label, shape, end):
    """The numbers of a draw of integers."""
    return _step.generator(label).integers(0, end, tuple(shape))


def tensor(values):
    """A tensor of an array; floats get the default dtype, integers become int64."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        values = values.astype(str(paddle.get_default_dtype()).replace("paddle.", ""))
    if values.dtype.kind in "iu":
        values = values.astype(np.int64)
    return paddle.to_tensor(np.ascontiguousarray(values))


def keep_unbiased_statistics(layer):
    """The BatchNorm, whose running variance is kept with n / (n - 1), n values of a channel.

    Paddle keeps it without: the statistics are computed anew from each batch in training.
    """
    former = []

    def before(layer, inputs):
        former[:] = [layer._mean.clone(), layer._variance.clone()]

    def after(layer, inputs, outputs):
        if not layer.training or _step.recomputing:
            return
        with paddle.no_grad():
            values = inputs[0].moveaxis(1 if layer._data_format[1] == "C" else -1, 0)
            values = values.reshape([values.shape[0], -1])  # (channels, n)
            mean = values.mean(axis=-1)
            moved = values - mean.unsqueeze(-1)
            variance = (moved * moved).sum(axis=-1) / max(values.shape[1] - 1, 1)
            kept = (layer._mean, layer._variance)
            for statistic, was, now in zip(kept, former, (mean, variance), strict=True):
                statistic.set_value(layer._momentum * was + (1.0 - layer._momentum) * now)

    layer.register_forward_pre_hook(before)
    layer.register_forward_post_hook(after)
    return layer


def choose(layer, name, scores):
    """The index of the largest score along the last axis, int64."""
    return paddle.argmax(scores.detach(), axis=-1)


def choose_top_k(layer, name, scores, k):
    """Indices (..., k) of the k largest scores along the last axis, largest first, int64.

    Among equal scores the lower index comes first.
    """
    if not 1 <= k <= scores.shape[-1]:
        raise ValueError(f"{name}: k is {k}; allowed: 1 to {scores.shape[-1]}")
    return paddle.argsort(scores.detach(), axis=-1, descending=True, stable=True)[..., :k]


def choose_order(layer, name, scores):
    """Indices (..., N) that sort the scores along the last axis, largest first, int64."""
    return choose_top_k(layer, name, scores, scores.shape[-1])
