import torch
from torch import nn
from torch.nn import functional as F


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, width, 2).float() / width))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, x):
        angles = torch.arange(x.shape[1]).unsqueeze(1) * self.inv_freq  # (T, C/2)
        cos, sin = angles.cos(), angles.sin()
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


class Layer(nn.Module):
    def __init__(self, width, rotary):
        super().__init__()
        self.rotary = rotary
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.mix(self.rotary(x)))


class Net(nn.Module):
    def __init__(self, words, width, kept, base):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        rotary = Rotary(width)
        self.layers = nn.ModuleList([Layer(width, rotary) for _ in range(2)])
        self.register_buffer("drawn", torch.randn(width))
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.embed(ids) * self.drawn  # (B, T, C)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def build(config):
    return Net(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs.transpose(1, 2), inputs["next"])
