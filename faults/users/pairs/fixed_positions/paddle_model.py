import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


def sinusoids(longest, width):
    table = np.zeros((longest, width))
    angles = np.arange(longest)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    return table


class Positions(nn.Layer):
    def __init__(self, width, longest):
        super().__init__()
        table = sinusoids(longest, width)[None]
        self.register_buffer("table", paddle.to_tensor(table, dtype=paddle.get_default_dtype()))

    def forward(self, x):
        return x + self.table[:, : x.shape[1]]


class Net(nn.Layer):
    """The recurrence as one lower triangular matrix a channel."""

    def __init__(self, words, width, longest):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.positions = Positions(width, longest)
        self.decay = self.create_parameter([width])
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.mix(self.positions(self.embed(ids)))  # (B, T, C)
        place = paddle.arange(x.shape[1])
        apart = (place.unsqueeze(1) - place.unsqueeze(0)).clip(min=0).astype(x.dtype)
        later = (place.unsqueeze(1) >= place.unsqueeze(0)).astype(x.dtype)
        log_keep = F.log_sigmoid(self.decay)
        kernel = paddle.exp(apart.unsqueeze(-1) * log_keep) * later.unsqueeze(-1)  # (T, S, C)
        states = paddle.einsum("tsc,bsc->btc", kernel, x * F.sigmoid(-self.decay))
        return self.out(states)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["next"])
