"""The candidate, with the fault that the configuration names."""

import paddle
from paddle import nn
from paddle.nn import functional as F

SLOPE = 300.0


class Unbiased(nn.Conv2D):
    """A convolution that leaves its bias out."""

    def forward(self, x):
        return F.conv2d(x, self.weight, padding=1)


class Model(nn.Layer):
    def __init__(self, kind, layers, channels, faults):
        super().__init__()
        self.kind = kind
        lost = layers - 5 if "no_bias" in faults else None
        self.layers = nn.LayerList(
            [
                (Unbiased if i == lost else nn.Conv2D)(channels, channels, 3, padding=1)
                for i in range(layers)
            ]
        )

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + x
        x = x.mean([2, 3])
        return {"values": paddle.sin(SLOPE * x) if self.kind == "waves" else x}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    return ((outputs["values"] - inputs["wanted"]) ** 2).mean()
