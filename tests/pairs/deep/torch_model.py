"""The reference."""

import torch
from torch import nn

SLOPE = 300.0


class Model(nn.Module):
    def __init__(self, kind, layers, channels, faults):
        super().__init__()
        self.kind = kind
        self.layers = nn.ModuleList(
            [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(layers)]
        )
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.15)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        x = x.mean([2, 3])
        return {"values": torch.sin(SLOPE * x) if self.kind == "waves" else x}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    return ((outputs["values"] - inputs["wanted"]) ** 2).mean()
