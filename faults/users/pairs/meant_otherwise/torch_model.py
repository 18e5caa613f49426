import torch
import torch.nn.functional as F
from torch import nn


class Convs(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm1d(width)
        self.act = nn.GELU()

    def forward(self, x):
        """x (B, C, T)"""
        return self.act(self.norm(self.conv(x)))


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, T) bool: True is padding"""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.mT) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(mask[:, None, :], float("-inf"))
        return self.out(scores.softmax(-1) @ v)


class Tagger(nn.Module):
    def __init__(self, width, classes, **other):
        super().__init__()
        self.convs = nn.Sequential(Convs(width), Convs(width))
        self.attend = Attend(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[2])[None] >= lengths[:, None]
        x = self.convs(x).transpose(1, 2)
        x = self.norm(x + self.attend(x, mask=mask))
        logits = self.head(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:2], -1)
        return {"log_probs": F.log_softmax(logits, -1)}


def build(config):
    return Tagger(**config)


def loss(outputs, inputs):
    return F.nll_loss(outputs["log_probs"].flatten(0, 1), inputs["labels"].flatten())
