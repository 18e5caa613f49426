from itertools import combinations

import torch
from torch import nn
from torch.nn import functional as F


class DeepFM(nn.Module):
    def __init__(self, fields, width):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, width) for size in fields])
        self.linear = nn.ModuleList([nn.Embedding(size, 1) for size in fields])
        self.dense = nn.Linear(2, 1)
        self.deep = nn.Sequential(
            nn.Linear(3 * width + 2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
        )

    def forward(self, fields, dense):
        vectors = [table(fields[:, i]) for i, table in enumerate(self.tables)]
        first = self.dense(dense) + sum(t(fields[:, i]) for i, t in enumerate(self.linear))
        second = sum((a * b).sum(1, keepdim=True) for a, b in combinations(vectors, 2))
        deep = self.deep(torch.cat([*vectors, dense], dim=1))
        return torch.sigmoid(first + second + deep).squeeze(1)


def build(config):
    return DeepFM(**config)


def loss(outputs, inputs):
    return F.binary_cross_entropy(outputs, inputs["clicked"])
