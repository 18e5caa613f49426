import torch
from torch import nn
from torch.nn import functional as F


class Siamese(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.fc1 = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)
        self.fc2 = nn.Linear(width, width)

    def encode(self, x):
        return self.fc2(torch.relu(self.norm(self.fc1(x))))

    def forward(self, first, second):
        a, b = self.encode(first), self.encode(second)
        return {"distance": F.pairwise_distance(a, b, eps=1e-6)}


def build(config):
    return Siamese(**config)


def loss(outputs, inputs):
    d, same = outputs["distance"], inputs["same"].to(outputs["distance"].dtype)
    return (same * d**2 + (1 - same) * torch.clamp(2.0 - d, min=0) ** 2).mean()
