"""The reference: blocks with several outputs, a layer that is called twice, code in between."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.mix = nn.Linear(width, width)
        self.activation = activation

    def forward(self, x):
        y = self.mix(self.norm(x))
        return self.activation(y), {"low": torch.tanh(y), "rest": (x - y, x * 0.5)}


class Model(nn.Module):
    def __init__(self, faults, width, layers, num_labels):
        super().__init__()
        selu = "selu" in faults  # both sides': Paddle keeps its constants in float32
        self.blocks = nn.ModuleList(
            [Block(width, F.selu if selu and i == 0 else F.gelu) for i in range(layers)]
        )
        self.twice = nn.Linear(width, width)
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for block in self.blocks:
            y, more = block(x)
            x = x + y * more["low"] + more["rest"][0] - more["rest"][1]
        x = torch.tanh(self.twice(x))
        x = torch.tanh(self.twice(x))
        return {"logits": self.head(x) * 2.0}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
