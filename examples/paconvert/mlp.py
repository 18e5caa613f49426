"""A perceptron with dropout, as many write it: the third argument of F.dropout is `training`."""

import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, width=16, hidden=32, classes=5, dropout=0.5):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, x):
        """x (B, C) -> (B, classes)"""
        x = F.relu(self.first(x))
        x = F.dropout(x, self.dropout, self.training)
        return self.last(x)
