"""The candidate: functions, attention written out, nothing checkpointed."""

import paddle
from paddle import nn
from paddle.nn import functional as F


class FeedForward(nn.Layer):
    def __init__(self, width, p):
        super().__init__()
        self.p = p
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        x = F.alpha_dropout(self.inner(x), self.p, training=self.training)
        return F.dropout(F.selu(x), self.p, training=self.training)


class Dropouts(nn.Layer):
    def __init__(self, width, p):
        super().__init__()
        self.p = p
        self.conv = nn.Conv2D(width, width, 3)
        self.norm = nn.BatchNorm2D(width)
        self.feed_forward = FeedForward(width, p)
        self.head = nn.Linear(width, 3)

    def forward(self, images):
        x = self.norm(F.dropout2d(self.conv(images), self.p, training=self.training))
        x = x.flatten(2).swapaxes(1, 2)  # (B, T, C)
        scores = paddle.matmul(x, x, transpose_y=True) / x.shape[-1] ** 0.5
        seen = paddle.tril(paddle.ones(scores.shape[-2:]))
        weights = F.softmax(scores.masked_fill(seen == 0, float("-inf")), axis=-1)
        x = paddle.matmul(F.dropout(weights, self.p, training=self.training), x)
        for _ in range(2):
            x = self.feed_forward(x)
        return {"logits": self.head(paddle.tanh(x).mean(axis=1))}


def build(config):
    return Dropouts(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
