import torch
from torch import nn


def activation():
    return nn.GELU()


class Branches(nn.Module):
    def __init__(self, width, hidden, out):
        super().__init__()
        self.stem = nn.Linear(width, hidden)
        self.stem_norm = nn.BatchNorm1d(hidden)
        self.predictor_act = activation()
        self.teacher_act = activation()
        self.head = nn.Linear(hidden, out)

    def forward(self, x, view):
        both = self.stem_norm(self.stem(torch.cat([x, view])))
        x, view = both.chunk(2)
        return {"error": self.head(self.predictor_act(x)) - self.head(self.teacher_act(view))}


def build(config):
    return Branches(**config)


def loss(outputs, inputs):
    return (outputs["error"] ** 2).mean()
