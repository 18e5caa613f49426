import torch
from torch import nn
from torch.nn import functional as F


def squash(s):
    square = (s**2).sum(-1, keepdim=True)
    return square / (1 + square) * s / torch.sqrt(square + 1e-8)


class Capsules(nn.Module):
    def __init__(self, capsules, size, classes, out):
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(classes, capsules, out, size))

    def forward(self, x):
        votes = torch.einsum("jnoi,bni->bjno", self.weight, x)
        b = torch.zeros(votes.shape[:3], dtype=x.dtype)
        for i in range(3):
            c = F.softmax(b, dim=1)
            v = squash(torch.einsum("bjn,bjno->bjo", c, votes))
            if i < 2:
                b = b + torch.einsum("bjo,bjno->bjn", v, votes)
        return {"lengths": v.norm(dim=-1)}


def build(config):
    return Capsules(**config)


def loss(outputs, inputs):
    lengths = outputs["lengths"]
    hot = F.one_hot(inputs["labels"], lengths.shape[1])
    right = F.relu(0.9 - lengths) ** 2
    wrong = F.relu(lengths - 0.1) ** 2
    return (hot * right + 0.5 * (1 - hot) * wrong).sum(1).mean()
