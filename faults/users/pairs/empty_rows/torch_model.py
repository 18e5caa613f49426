import torch
from torch import nn
from torch.nn import functional as F


class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x, keep):
        scores = self.score(x).squeeze(-1).masked_fill(~keep, float("-inf"))
        return (scores.softmax(-1).unsqueeze(-1) * x).sum(1)


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.pool = Pool(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x, keep):
        return {"logits": self.head(torch.tanh(self.pool(x, keep)))}


def loss(outputs, inputs):
    there = inputs["labels"] >= 0
    return F.cross_entropy(outputs["logits"][there], inputs["labels"][there])
