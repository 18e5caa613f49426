import torch
from torch import nn
from torch.nn import functional as F


class PointNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.lift1 = nn.Conv1d(3, width, 1)
        self.bn1 = nn.BatchNorm1d(width)
        self.lift2 = nn.Conv1d(width, 2 * width, 1)
        self.bn2 = nn.BatchNorm1d(2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, points):
        x = points.transpose(1, 2)  # (B, 3, N)
        x = F.relu(self.bn1(self.lift1(x)))
        x = self.bn2(self.lift2(x))
        return self.head(torch.max(x, dim=2)[0])


def build(config):
    return PointNet(**config)


def loss(outputs, inputs):
    return F.nll_loss(F.log_softmax(outputs, dim=1), inputs["labels"])
