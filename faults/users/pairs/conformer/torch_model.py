import math

import torch
from torch import nn
from torch.nn import functional as F


def positions(length, width):
    """Sinusoids of the distances length - 1 ... 1 - length: (2T - 1, C)"""
    distance = torch.arange(length - 1, -length, -1.0, dtype=torch.get_default_dtype())
    rates = torch.exp(torch.arange(0, width, 2.0) * (-math.log(10000.0) / width))
    angles = distance[:, None] * rates.to(distance.dtype)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(-1, width)


class FeedForward(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.down(self.dropout(F.silu(self.up(self.norm(x))))))


class RelativeAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.to_pos = nn.Linear(width, width, bias=False)
        self.to_out = nn.Linear(width, width)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.heads, -1).transpose(1, 2)  # (B, H, T, D)

    def forward(self, x, pos):
        B, T, C = x.shape
        x = self.norm(x)
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        p = self.split(self.to_pos(pos)[None])  # (1, H, 2T - 1, D)
        content = (q + self.content_bias[:, None]) @ k.transpose(-2, -1)
        shifted = self.shift((q + self.position_bias[:, None]) @ p.transpose(-2, -1))
        scores = (content + shifted) / math.sqrt(C // self.heads)
        mixed = self.dropout(scores.softmax(dim=-1)) @ v
        return self.dropout(self.to_out(mixed.transpose(1, 2).reshape(B, T, C)))

    @staticmethod
    def shift(x):
        """(B, H, T, 2T - 1) by distance -> (B, H, T, T) by place"""
        B, H, T, n = x.shape
        x = F.pad(x, (1, 0)).view(B, H, n + 1, T)
        return x[:, :, 1:].reshape(B, H, T, n)[..., :T]


class Convolution(nn.Module):
    def __init__(self, width, kernel, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.pointwise1 = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.pointwise2 = nn.Conv1d(width, width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(x).transpose(1, 2)  # (B, C, T)
        x = F.glu(self.pointwise1(x), dim=1)
        x = F.silu(self.batch_norm(self.depthwise(x)))
        return self.dropout(self.pointwise2(x)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width, heads, kernel, dropout):
        super().__init__()
        self.ff1 = FeedForward(width, dropout)
        self.attention = RelativeAttention(width, heads, dropout)
        self.conv = Convolution(width, kernel, dropout)
        self.ff2 = FeedForward(width, dropout)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, pos):
        x = x + 0.5 * self.ff1(x)
        x = x + self.attention(x, pos)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.norm(x)


class Conformer(nn.Module):
    def __init__(self, features, width, heads, kernel, layers, classes, dropout):
        super().__init__()
        self.width = width
        self.embed = nn.Linear(features, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(width, heads, kernel, dropout) for _ in range(layers)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        pos = positions(x.shape[1], self.width)
        x = self.dropout(self.embed(x))  # (B, T, C)
        for block in self.blocks:
            x = block(x, pos)
        return {"logits": self.head(x.mean(dim=1))}


def build(config):
    return Conformer(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
