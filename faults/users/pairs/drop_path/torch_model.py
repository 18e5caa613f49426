import torch
from torch import nn
from torch.nn import functional as F


def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep = 1.0 - rate
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    mask = keep + torch.rand(shape, dtype=x.dtype, device=x.device)
    return x.div(keep) * mask.floor_()


class Block(nn.Module):
    def __init__(self, width, rate):
        super().__init__()
        self.rate = rate
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.fc2(F.gelu(self.fc1(self.norm(x))))
        return x + drop_path(y, self.rate, self.training)


class Net(nn.Module):
    def __init__(self, width, depth, rate, classes):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width, rate * i / (depth - 1)) for i in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
