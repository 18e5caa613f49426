"""The reference: a small text classifier, as somebody may have published it."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)  # square
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, T) bool, True = keep -> (B, T, C), weights (B, H, T, T)"""
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (y.view(B, T, self.heads, C // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(C // self.heads)  # (B, H, T, T)
        scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
        weights = self.dropout(F.softmax(scores, dim=-1))
        mixed = (weights @ v).transpose(1, 2).reshape(B, T, C)
        return self.out(mixed), weights


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )

    def forward(self, x, mask=None):
        attended, weights = self.attention(self.norm1(x), mask=mask)
        x = x + attended
        return x + self.mlp(self.norm2(x)), weights


class TextClassifier(nn.Module):
    def __init__(self, vocabulary, width, heads, layers, max_length, classes, dropout):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(max_length, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.pooled_norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.1)
                nn.init.zeros_(module.bias)

    def forward(self, input_ids):
        mask = input_ids != 0  # (B, T)
        x = self.dropout(self.words(input_ids) + self.positions[: input_ids.shape[1]])
        attentions = []
        for block in self.blocks:
            x, weights = block(x, mask=mask)
            attentions.append(weights)
        kept = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * kept).sum(1) / kept.sum(1).clamp(min=1.0)  # (B, C)
        logits = self.head(self.pooled_norm(pooled))
        return {"logits": logits, "hidden": {"pooled": pooled, "attentions": tuple(attentions)}}


def build(config):
    return TextClassifier(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
