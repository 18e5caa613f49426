"""The reference, in which nothing is at fault: blocks with several outputs, code in between."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, activation, faults):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-3 if "norm" in faults else 1e-12)
        self.mix = nn.Linear(width, width)
        self.activation = activation
        self.faults = faults

    def forward(self, x):
        y = self.mix(self.norm(x))
        low = torch.tanh(y * 1.001 if "dict" in self.faults else y)
        half = x * (0.5001 if "tuple" in self.faults else 0.5)
        if "detached" in self.faults:
            low = 0.5 * low + 0.5 * low.detach()
        if "nan" in self.faults:
            half = half * float("nan")
        return self.activation(y), {"low": low, "rest": (x - y, half)}


class Twice(nn.Linear):
    """A Linear that doubles its bias from the second call on."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        y = super().forward(x)
        return y + self.bias if self.calls % 2 == 0 else y


class Head(nn.Linear):
    """A Linear without its bias."""

    def forward(self, x):
        return F.linear(x, self.weight)


class Model(nn.Module):
    def __init__(self, faults, width, layers, num_labels):
        super().__init__()
        selu = "selu" in faults
        there = {0: ["tuple", "nan"], 1: ["norm"], 2: ["dict", "detached"]}
        self.blocks = nn.ModuleList(
            [
                Block(
                    width,
                    F.selu if selu and i == 0 else F.gelu,
                    [fault for fault in there.get(i, []) if fault in faults],
                )
                for i in range(layers)
            ]
        )
        self.twice = Twice(width, width) if "second_call" in faults else nn.Linear(width, width)
        self.head = Head(width, num_labels) if "bias" in faults else nn.Linear(width, num_labels)
        self.faults = faults

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            if i == 3 and "between" in self.faults:
                x = x * 1.0001
            y, more = block(x)
            x = x + y * more["low"] + more["rest"][0] - more["rest"][1]
        x = torch.tanh(self.twice(x))
        x = torch.tanh(self.twice(x))
        return {"logits": self.head(x) * (2.001 if "end" in self.faults else 2.0)}


def build(config):
    selu = [fault for fault in config["faults"] if fault == "selu"]  # Paddle's own
    return Model(**config | {"faults": selu})


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
