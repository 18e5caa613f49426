"""The candidate of the tests' own pair: one module has another name (RENAME)."""

import paddle
from paddle import nn
from paddle.nn import functional as F


class Pool(nn.Layer):
    def forward(self, x):
        return x.mean(axis=(2, 3))


class SmallCNN(nn.Layer):
    def __init__(self, channels, num_labels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(3, channels, 3, padding=1),
            nn.BatchNorm2D(channels),
            nn.ReLU(),
            nn.Conv2D(channels, channels, 3, stride=2, bias_attr=False),
        )
        self.pool = Pool()  # a module that the reference does not have
        self.norm = nn.LayerNorm(channels, epsilon=1e-12)
        self.square = nn.Linear(channels, channels)
        self.head = nn.Linear(channels, num_labels)

    def forward(self, images):
        x = self.pool(self.body(images))
        return {"logits": self.head(paddle.tanh(self.square(self.norm(x)))), "pooled": (x,)}


def build(config):
    return SmallCNN(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
