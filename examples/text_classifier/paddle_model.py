"""The port of torch_model.py, in plain Paddle."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn


class SelfAttention(nn.Layer):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)  # square
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, T) bool, True = keep -> (B, T, C), weights (B, H, T, T)"""
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        q, k, v = (y.reshape([B, T, self.heads, -1]).transpose([0, 2, 1, 3]) for y in (q, k, v))
        scores = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(C // self.heads)  # (B, H, T, T)
        scores = paddle.where(mask[:, None, None, :], scores, paddle.full([], -1e9, scores.dtype))
        weights = self.dropout(F.softmax(scores, axis=-1))
        mixed = (weights @ v).transpose([0, 2, 1, 3]).reshape([B, T, C])
        return self.out(mixed), weights


class Block(nn.Layer):
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


class TextClassifier(nn.Layer):
    def __init__(self, vocabulary, width, heads, layers, max_length, classes, dropout):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        zeros = nn.initializer.Constant(0.0)
        self.positions = self.create_parameter([max_length, width], default_initializer=zeros)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.LayerList([Block(width, heads, dropout) for _ in range(layers)])
        self.pooled_norm = nn.BatchNorm1D(width)
        self.classifier = nn.Linear(width, classes)  # torch's `head`: see RENAME in case.py
        nn.initializer.Normal()(self.words.weight)  # torch's default; Paddle's is another
        for module in self.sublayers():
            if isinstance(module, nn.Linear):
                nn.initializer.Normal(std=0.1)(module.weight)
                nn.initializer.Constant(0.0)(module.bias)

    def forward(self, input_ids):
        mask = input_ids != 0  # (B, T)
        x = self.dropout(self.words(input_ids) + self.positions[: input_ids.shape[1]])
        attentions = []
        for block in self.blocks:
            x, weights = block(x, mask=mask)
            attentions.append(weights)
        kept = mask.unsqueeze(-1).astype(x.dtype)
        pooled = (x * kept).sum(1) / kept.sum(1).clip(min=1.0)  # (B, C)
        logits = self.classifier(self.pooled_norm(pooled))
        return {"logits": logits, "hidden": {"pooled": pooled, "attentions": tuple(attentions)}}


def build(config):
    return TextClassifier(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
