"""Pairs of live models that are hard to run elsewhere: by name, a function that makes one.

Each gives (torch model, Paddle model, inputs, loss of both sides); their weights differ.  A model
is written once: its port is the same text in Paddle's spelling.
"""

import atexit
import dataclasses
import inspect
import threading
from functools import partial

import numpy as np
import paddle
import torch
from torch import nn

from tools.twins import translate

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(3))
PAIRS = {}
FILE = open(__file__)  # noqa: SIM115  (open as long as its models are)
atexit.register(FILE.close)
OWN = torch.Generator().manual_seed(5)


def square(outputs):
    """A loss of a model that returns one tensor, the same text in both frameworks."""
    return outputs.pow(2).mean()


def hook(module, function):
    """Have a module's outputs changed by a function."""
    name = (
        "register_forward_hook" if isinstance(module, nn.Module) else "register_forward_post_hook"
    )
    getattr(module, name)(lambda module, given, out: function(out))


# What no spelling says: torch's, and in the port's text Paddle's.
random = lambda x: torch.rand(x.shape, generator=OWN, dtype=x.dtype)  # noqa: E731
BatchNorm, LSTM = nn.BatchNorm1d, partial(nn.LSTM, batch_first=True)
double = nn.Module.double
OF_PADDLE = {
    "random": lambda x: paddle.rand(x.shape, dtype=x.dtype),
    "double": partial(paddle.nn.Layer.to, dtype="float64"),
    **{"BatchNorm": paddle.nn.BatchNorm1D, "LSTM": paddle.nn.LSTM, "nn": paddle.nn},
}


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


def of_paddle(thing):
    """A class or a function of this file in Paddle's spelling."""
    space = {**globals(), **OF_PADDLE}
    text = inspect.getsource(thing).removeprefix("@pair\n")
    exec(compile(translate(text), __file__, "exec"), space)
    return space[thing.__name__]


Port = OF_PADDLE["One"] = of_paddle(One)


def pair(make):
    """Enter a pair, made by (model, its inputs, its loss) of torch, under its function's name."""

    def both():
        model, inputs, loss = make()
        port, _, losses = of_paddle(make)()
        return model, port, inputs, loss and (loss, losses)

    PAIRS[make.__name__] = both
    return make


@pair
def weights_tied():
    class Projection(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return x @ self.weight.T

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(11, 6)
            self.out = Projection(self.words.weight)

        def forward(self, ids):
            return self.out(self.words(ids).tanh())

    return Tied(), {"ids": np.array([[1, 2, 3], [4, 5, 10]])}, None


@pair
def a_hook_changes_outputs():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    first = model[0]
    hook(model[1], lambda out: out * first.bias.mean() + 1)
    return model, X, None


@pair
def an_autograd_function():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clip(min=0) ** 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0].clip(min=0)

    return One(lambda self, x: Square.apply(x)), X, square


@pair
def generators_of_the_users():
    return One(lambda self, x: x + random(x)), X, None


@pair
def in_train_mode():
    model = nn.Sequential(nn.Linear(4, 8), BatchNorm(8), nn.Dropout(0.3), nn.Linear(8, 3))
    model.train()
    return model, X, square


@pair
def on_float64():
    model = double(One(lambda self, x: x.tanh()))
    return model, X.double(), None


@pair
def a_lock_and_a_file():
    def locked(self, x):
        with self.lock:
            return x.tanh()

    model = One(locked)
    model.lock = threading.Lock()
    model.file = FILE
    model.counting = (i for i in range(3))
    return model, X, None


@pair
def lambdas_with_weights():
    model = One(lambda self, x: self.turn(x))
    w = model.a.weight
    model.turn = lambda x: nn.functional.linear(x, w)
    return model, X, None


@pair
def nested_inputs():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x, parts):
            first, (second, named) = parts
            return self.a(x) + first * second + named["d"]

    inside = (paddle.ones([5, 4]), {"d": np.ones((5, 4), np.float32)})
    return Nested(), (X, (X, inside)), None


@pair
def outputs_that_are_a_dataclass():
    return One(lambda self, x: Out(x.tanh(), (x, x * 2))), X, None


@pair
def a_recurrent_layer():
    model = One(lambda self, x: self.r(x)[0])
    model.r = LSTM(4, 6)
    return model, X[None], None


@pair
def plain_tensors():
    model = One(lambda self, x: x * self.scale + self.many[0])
    model.scale, model.many = torch.tensor([0.1]), [torch.tensor([0.3])]
    return model, X, None


@pair
def a_patched_forward():
    model = nn.Linear(4, 4)
    before = model.forward
    model.forward = lambda *given: before(*given) * 2
    return model, X, None


@pair
def outputs_with_a_loss_of_their_own():
    model = One(lambda self, x: {"y": x, "loss": square(x)})
    return model, X, lambda outputs: outputs["loss"] * 3


@pair
def a_model_that_changes_what_is_set_on_it():
    class Changing(One):
        """As PaddleFormers' models: a forward that is set is called with the model before all."""

        def __setattr__(self, name, value):
            if name == "forward":
                super().__setattr__(name, lambda *given, **named: value(self, *given, **named))
            else:
                super().__setattr__(name, value)

    return Changing(lambda self, x: x.tanh()), X, None
