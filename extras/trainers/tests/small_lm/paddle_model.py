"""The port of it."""

import paddle
from paddle import nn
from paddle.nn import functional as F


class SmallLM(nn.Layer):
    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        zeros = nn.initializer.Constant(0.0)
        self.places = self.create_parameter([length, width], default_initializer=zeros)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 2 * width)
        self.out = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocabulary)
        normal = nn.initializer.Normal(std=0.2)
        for layer in (self.embed, self.mix, self.out, self.head):
            normal(layer.weight)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.places
        count = paddle.arange(1, x.shape[1] + 1).reshape([1, -1, 1]).astype(x.dtype)
        seen = x.cumsum(1) / count
        x = x + self.out(paddle.tanh(self.mix(self.norm(seen))))
        return {"logits": self.head(x)}


def build(config):
    return SmallLM(**config)


def loss(outputs, inputs):
    logits, labels = outputs["logits"].flatten(0, 1), inputs["labels"].flatten()
    kept = (labels != -100).astype(logits.dtype)
    # Its own mean would count what is ignored where ignore_index is negative.
    each = F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")
    return each.sum() / kept.sum()
