import math

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Uniform


def positions(length, width):
    """Sinusoids of the distances length - 1 ... 1 - length: (2T - 1, C)"""
    distance = paddle.arange(length - 1, -length, -1.0, dtype=paddle.get_default_dtype())
    rates = paddle.exp(paddle.arange(0, width, 2.0) * (-math.log(10000.0) / width))
    angles = distance[:, None] * rates.astype(distance.dtype)
    return paddle.stack([angles.sin(), angles.cos()], axis=-1).reshape([-1, width])


class FeedForward(nn.Layer):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.down(self.dropout(F.silu(self.up(self.norm(x))))))


class RelativeAttention(nn.Layer):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.to_pos = nn.Linear(width, width, bias_attr=False)
        self.to_out = nn.Linear(width, width)
        shape = [heads, width // heads]
        zeros = nn.initializer.Constant(0.0)
        self.content_bias = self.create_parameter(shape, default_initializer=zeros)
        self.position_bias = self.create_parameter(shape, default_initializer=zeros)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        B, T, _ = x.shape
        return x.reshape([B, T, self.heads, -1]).transpose([0, 2, 1, 3])  # (B, H, T, D)

    def forward(self, x, pos):
        B, T, C = x.shape
        x = self.norm(x)
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        p = self.split(self.to_pos(pos)[None])  # (1, H, 2T - 1, D)
        content = paddle.matmul(q + self.content_bias[:, None], k, transpose_y=True)
        shifted = self.shift(paddle.matmul(q + self.position_bias[:, None], p, transpose_y=True))
        scores = (content + shifted) / math.sqrt(C // self.heads)
        mixed = paddle.matmul(self.dropout(F.softmax(scores, axis=-1)), v)
        return self.dropout(self.to_out(mixed.transpose([0, 2, 1, 3]).reshape([B, T, C])))

    @staticmethod
    def shift(x):
        """(B, H, T, 2T - 1) by distance -> (B, H, T, T) by place"""
        B, H, T, n = x.shape
        x = paddle.concat([paddle.zeros([B, H, T, 1], x.dtype), x], axis=-1)
        x = x.reshape([B, H, n + 1, T])
        return x[:, :, 1:].reshape([B, H, T, n])[..., :T]


class Convolution(nn.Layer):
    def __init__(self, width, kernel, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.pointwise1 = nn.Conv1D(width, 2 * width, 1)
        self.depthwise = nn.Conv1D(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1D(width, momentum=0.9)
        self.pointwise2 = nn.Conv1D(width, width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(x).transpose([0, 2, 1])  # (B, C, T)
        x = F.glu(self.pointwise1(x), axis=1)
        x = F.silu(self.batch_norm(self.depthwise(x)))
        return self.dropout(self.pointwise2(x)).transpose([0, 2, 1])


class Block(nn.Layer):
    def __init__(self, width, heads, kernel, dropout):
        super().__init__()
        self.ff1 = FeedForward(width, dropout)
        self.attention = RelativeAttention(width, heads, dropout)
        self.conv = Convolution(width, kernel, dropout)
        self.ff2 = FeedForward(width, dropout)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, pos):
        x = x + 0.5 * self.ff1(x)
        x = x + self.attention(x, pos)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.norm(x)


class Conformer(nn.Layer):
    def __init__(self, features, width, heads, kernel, layers, classes, dropout):
        super().__init__()
        self.width = width
        self.embed = nn.Linear(features, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.LayerList([Block(width, heads, kernel, dropout) for _ in range(layers)])
        self.head = nn.Linear(width, classes)
        self.apply(as_torch)

    def forward(self, x):
        pos = positions(x.shape[1], self.width)
        x = self.dropout(self.embed(x))  # (B, T, C)
        for block in self.blocks:
            x = block(x, pos)
        return {"logits": self.head(x.mean(axis=1))}


def as_torch(layer):
    """torch's first values of Linear and Conv1d."""
    if isinstance(layer, nn.Linear | nn.Conv1D):
        shape = layer.weight.shape
        inputs = shape[0] if isinstance(layer, nn.Linear) else shape[1] * shape[2]
        edge = inputs**-0.5
        for value in (layer.weight, layer.bias):
            if value is not None:
                Uniform(-edge, edge)(value)


def build(config):
    return Conformer(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
