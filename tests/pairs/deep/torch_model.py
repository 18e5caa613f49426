"""The reference, which has all its biases."""

import torch
from torch import nn
from torch.nn import functional as F

SLOPE = 300.0


class Unbiased(nn.Conv2d):
    """A convolution that leaves its bias out."""

    def forward(self, x):
        return F.conv2d(x, self.weight, padding=1)


class Model(nn.Module):
    def __init__(self, kind, layers, channels, faults):
        super().__init__()
        self.kind = kind
        lost = layers - 5 if "no_bias" in faults else None
        kinds = (Unbiased if i == lost else nn.Conv2d for i in range(layers))
        self.layers = nn.ModuleList([made(channels, channels, 3, padding=1) for made in kinds])
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.15)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + x
        x = x.mean([2, 3])
        return {"values": torch.sin(SLOPE * x) if self.kind == "waves" else x}


def build(config):
    return Model(**config | {"faults": []})


def loss(outputs, inputs):
    return ((outputs["values"] - inputs["wanted"]) ** 2).mean()
