"""A vector's nearest code, of which each is there twice, and a classifier of the codes' mean."""

import paddle
from paddle import nn
from paddle.nn import functional as F


class Model(nn.Layer):
    """Logits (B, C) of x (B, T, F); float32 sees no difference between a code and its twin."""

    def __init__(self, features, codes, classes):
        super().__init__()
        self.codes = nn.Linear(features, codes)
        self.embed = nn.Embedding(2 * codes, features)
        self.last = nn.Linear(features, classes)

    def forward(self, x):
        near = self.codes(x)
        scores = paddle.concat([near, near * (1 + 1e-9)], -1)
        return {"logits": self.last(self.embed(paddle.argmax(scores, -1)).mean(1))}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
