"""Pairs of live models that are hard to run elsewhere: by name, a function that makes one.

Each gives (torch model, Paddle model, inputs, loss of both sides); their weights differ.
"""

import atexit
import dataclasses
import threading

import numpy as np
import paddle
import torch
from paddle import nn as pn
from torch import nn

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(3))
PAIRS = {}
FILE = open(__file__)  # noqa: SIM115  (open as long as its models are)
atexit.register(FILE.close)


def square(outputs):
    """A loss of a model that returns one tensor, the same text in both frameworks."""
    return outputs.pow(2).mean()


def pair(make):
    """Enter a pair under its function's name."""
    PAIRS[make.__name__] = make
    return make


@dataclasses.dataclass
class Out:
    """Outputs that are a dataclass, one of whose fields is not set."""

    y: object
    hidden: object = None
    cache: object = None


class One(nn.Module):
    """A layer and what comes after it."""

    def __init__(self, after):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.after = after

    def forward(self, x):
        return self.after(self, self.a(x))


class Port(pn.Layer):
    """The same."""

    def __init__(self, after):
        super().__init__()
        self.a = pn.Linear(4, 4)
        self.after = after

    def forward(self, x):
        return self.after(self, self.a(x))


@pair
def weights_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(11, 6)
            self.out = nn.Linear(6, 11, bias=False)
            self.out.weight = self.words.weight

        def forward(self, ids):
            return self.out(self.words(ids).tanh())

    class Projection(pn.Layer):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return paddle.matmul(x, self.weight, transpose_y=True)

    class TiedPort(pn.Layer):
        def __init__(self):
            super().__init__()
            self.words = pn.Embedding(11, 6)
            self.out = Projection(self.words.weight)

        def forward(self, ids):
            return self.out(paddle.tanh(self.words(ids)))

    return Tied(), TiedPort(), {"ids": np.array([[1, 2, 3], [4, 5, 10]])}, None


@pair
def a_hook_changes_outputs():
    t = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    p = pn.Sequential(pn.Linear(4, 8), pn.ReLU(), pn.Linear(8, 3))
    first, first_port = t[0], p[0]
    t[1].register_forward_hook(lambda module, given, out: out * first.bias.mean() + 1)
    p[1].register_forward_post_hook(lambda layer, given, out: out * first_port.bias.mean() + 1)
    return t, p, X, None


@pair
def an_autograd_function():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0) ** 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0].clamp(min=0)

    class SquarePort(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return paddle.clip(x, min=0) ** 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * paddle.clip(ctx.saved_tensor()[0], min=0)

    models = One(lambda self, x: Square.apply(x)), Port(lambda self, x: SquarePort.apply(x))
    return *models, X, (square, square)


@pair
def generators_of_the_users():
    own = torch.Generator().manual_seed(5)

    def noisy(self, x):
        return x + torch.rand(x.shape, generator=own, dtype=x.dtype)

    def noisy_port(self, x):
        return x + paddle.rand(x.shape, dtype=x.dtype)

    return One(noisy), Port(noisy_port), X, None


@pair
def in_train_mode():
    t = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))
    p = pn.Sequential(pn.Linear(4, 8), pn.BatchNorm1D(8), pn.Dropout(0.3), pn.Linear(8, 3))
    t.train()
    p.train()
    return t, p, X, (square, square)


@pair
def on_float64():
    t, p = One(lambda self, x: x.tanh()).double(), Port(lambda self, x: paddle.tanh(x))
    p.to(dtype="float64")
    return t, p, X.double(), None


@pair
def a_lock_and_a_file():
    def locked(self, x):
        with self.lock:
            return x.tanh()

    models = One(locked), Port(locked)
    for model in models:
        model.lock = threading.Lock()
        model.file = FILE
        model.counting = (i for i in range(3))
    return *models, X, None


@pair
def lambdas_with_weights():
    t, p = One(lambda self, x: self.turn(x)), Port(lambda self, x: self.turn(x))
    w, v = t.a.weight, p.a.weight
    t.turn = lambda x: x @ w.T
    p.turn = lambda x: paddle.matmul(x, v)
    return t, p, X, None


@pair
def nested_inputs():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x, parts):
            first, (second, named) = parts
            return self.a(x) + first * second + named["d"]

    class NestedPort(pn.Layer):
        def __init__(self):
            super().__init__()
            self.a = pn.Linear(4, 4)

        def forward(self, x, parts):
            first, (second, named) = parts
            return self.a(x) + first * second + named["d"]

    inside = (paddle.ones([5, 4]), {"d": np.ones((5, 4), np.float32)})
    return Nested(), NestedPort(), (X, (X, inside)), None


@pair
def outputs_that_are_a_dataclass():
    models = (
        One(lambda self, x: Out(x.tanh(), (x, x * 2))),
        Port(lambda self, x: Out(paddle.tanh(x), (x, x * 2))),
    )
    return *models, X, None


@pair
def a_recurrent_layer():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.r = nn.LSTM(4, 6, batch_first=True)

        def forward(self, x):
            return self.r(x)[0]

    class RecurrentPort(pn.Layer):
        def __init__(self):
            super().__init__()
            self.r = pn.LSTM(4, 6)

        def forward(self, x):
            return self.r(x)[0]

    return Recurrent(), RecurrentPort(), X[None], None


@pair
def plain_tensors():
    t = One(lambda self, x: x * self.scale + self.many[0])
    p = Port(lambda self, x: x * self.scale + self.many[0])
    for model, tensor in ((t, torch.tensor), (p, paddle.to_tensor)):
        model.scale, model.many = tensor([0.1]), [tensor([0.3])]
    return t, p, X, None


@pair
def a_patched_forward():
    t, p = nn.Linear(4, 4), pn.Linear(4, 4)
    before, before_port = t.forward, p.forward
    t.forward = lambda *given: before(*given) * 2
    p.forward = lambda *given: before_port(*given) * 2
    return t, p, X, None


@pair
def outputs_with_a_loss_of_their_own():
    models = (
        One(lambda self, x: {"y": x, "loss": square(x)}),
        Port(lambda self, x: {"y": x, "loss": square(x)}),
    )
    return *models, X, (lambda outputs: outputs["loss"] * 3,) * 2


@pair
def a_model_that_changes_what_is_set_on_it():
    class Changing(Port):
        """As PaddleFormers' models: a forward that is set is called with the model before all."""

        def __setattr__(self, name, value):
            if name == "forward":
                super().__setattr__(name, lambda *given, **named: value(self, *given, **named))
            else:
                super().__setattr__(name, value)

    return One(lambda self, x: x.tanh()), Changing(lambda self, x: paddle.tanh(x)), X, None
