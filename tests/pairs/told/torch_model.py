import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, fault):
        super().__init__()
        self.fault = fault
        self.first = nn.Conv1d(channels, channels, 3, padding=1)
        self.drop = nn.Dropout1d(0.3)
        self.second = nn.Conv1d(channels, channels, 3, padding=1)
        self.size = nn.Parameter(torch.full((10,), 1e-4))

    def forward(self, x):
        x = self.second(self.drop(self.first(x)))
        return x * torch.sqrt(self.size) if self.fault == "root" else x * self.size


def build(config):
    global fault
    fault = config["fault"]
    return Model(**config)


def loss(outputs, inputs):
    losses = (outputs**2).mean((1, 2))
    if fault == "dict":
        return {"loss": losses.mean()}
    if fault == "float":
        return float(losses.mean())
    return losses if fault == "samples" else losses.mean()
