"""A transformer's layer in its default layout: time first, then the batch."""

from torch import nn


class Network(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1)

    def forward(self, x):
        """x (T, B, C)"""
        return self.layer(x)
