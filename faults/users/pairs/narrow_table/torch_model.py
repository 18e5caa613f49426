import numpy as np
import torch
from torch import nn


def waves(longest, width):
    angles = np.arange(longest)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


class Net(nn.Module):
    def __init__(self, words, width, longest):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.register_buffer("places", torch.from_numpy(waves(longest, width)), persistent=False)
        self.norm = nn.LayerNorm(width)
        self.gain = nn.Parameter(torch.ones(width))
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.norm(self.embed(ids) + self.places[: ids.shape[1]])
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.out(x * self.gain)


def build(config):
    return Net(**config)
