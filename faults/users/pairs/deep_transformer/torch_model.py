import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """x + fn(norm(x))"""

    def __init__(self, width, fn):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fn = fn

    def forward(self, x):
        return x + self.fn(self.norm(x))


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self, width, heads, depth, classes):
        super().__init__()
        self.layers = nn.Sequential()
        for _ in range(depth):
            mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            block = nn.Sequential(Residual(width, Attend(width, heads)), Residual(width, mlp))
            self.layers.append(block)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
