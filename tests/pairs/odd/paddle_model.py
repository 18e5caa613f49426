"""The port: the same odd things, but for the layer that works in place."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import paddle
from paddle import nn
from paddle.nn import functional as F

Pair = namedtuple("Pair", "first second")


class ModelOutput(OrderedDict):
    """Like transformers': items and attributes are one; None is left out."""

    def __init__(self, **items):
        super().__init__((k, v) for k, v in items.items() if v is not None)
        for key, value in items.items():
            super().__setattr__(key, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclass(frozen=True)
class Hidden:
    states: paddle.Tensor
    extra: object = None


class Attend(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, *, keep=None, bias=None):
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        scores = q @ k.swapaxes(1, 2) + bias
        scores = scores.masked_fill(~keep, -1e9)
        return F.softmax(scores, axis=-1) @ v, None, (scores,)


class Inner(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.attend = Attend(width)
        self.act = nn.ReLU()
        self.unused = nn.Linear(2, 2)

    def forward(self, hidden):
        assert isinstance(hidden, Hidden)
        x, none, rest = self.attend(
            hidden.states, keep=hidden.extra["keep"], bias=hidden.extra["bias"]
        )
        y = x * 1.0
        z = self.act(y)
        return Pair(z + z, rest[0])  # torch writes into y


class Outer(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.inner = Inner(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, keep):
        pair = self.inner(Hidden(x, {"keep": keep, "bias": x.mean()}))
        assert isinstance(pair, Pair)
        a = self.norm(pair.first)
        b = self.norm(a)
        return ModelOutput(last=b, scores=pair.second, hidden_states=(a, b), nothing=None)


class Odd(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.LayerList([Outer(width) for _ in range(1)])
        self.flat = nn.Flatten(0, 1)
        self.head = nn.Linear(width, 2)

    def forward(self, x, keep):
        kept = []
        for layer in self.layers:
            out = layer(x=x, keep=keep)
            assert isinstance(out, ModelOutput) and out.last is out["last"]
            x = out.last
            x += 1.0
            kept.append(out.scores)
        view = self.flat(x)
        return ModelOutput(logits=self.head(x).mean(1), kept=kept, state=Hidden(x, {"view": view}))


def build(config):
    return Odd(config["width"])


def loss(outputs, inputs):
    return F.cross_entropy(outputs.logits, inputs["labels"])
