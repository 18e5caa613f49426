import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.frozen = nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width))
        for parameter in self.frozen.parameters():
            parameter.requires_grad_(False)
        self.adapter = nn.Linear(features, width)
        self.scale = nn.Parameter(torch.tensor(1e-4))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        with torch.no_grad():
            fixed = self.frozen(x)
        return self.head(torch.tanh(fixed + self.scale * torch.relu(self.adapter(x))))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
