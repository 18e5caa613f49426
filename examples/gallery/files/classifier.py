"""A small text classifier, as one writes it in torch: what PaConvert translates well."""

import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self, words=50, width=16, heads=2, classes=5, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.convolution = nn.Conv1d(width, width, 3, padding=1)
        self.recurrent = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.project = nn.Linear(2 * width, width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, classes))

    def forward(self, x):
        """x (B, T) int64 -> logits (B, classes)"""
        padding = x == 0
        x = self.embedding(x)  # (B, T, C)
        x = x + F.relu(self.convolution(x.transpose(1, 2)).transpose(1, 2))
        x = self.project(self.recurrent(x)[0])
        seen = self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        x = self.norm(x + self.dropout(seen))
        x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        words = (~padding).float().sum(dim=1, keepdim=True)
        return self.head(x.sum(dim=1) / torch.clamp(words, min=1.0))
