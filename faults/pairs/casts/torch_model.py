"""The reference of the models that cast: torch.  B batch, T tokens, C channels, D = C / heads."""

import functools
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

_SLOPES = 2.0 ** -torch.arange(1, 5, dtype=torch.float32).div(3.0)  # of the heads; made on import
_SEEN = {}  # length -> distances, kept from call to call


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Rotary(nn.Module):
    def __init__(self, size, length, base=10000.0):
        super().__init__()
        inverse = 1.0 / (base ** (torch.arange(0, size, 2, dtype=torch.int64).float() / size))
        angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse)
        self.register_buffer("angles", torch.cat([angles, angles], -1), persistent=False)

    def forward(self, x):
        """x (B, H, T, D)"""
        angles = self.angles[: x.shape[2]].float()
        left, right = x.chunk(2, -1)
        return x * angles.cos().to(x.dtype) + torch.cat([-right, left], -1) * angles.sin().to(
            x.dtype
        )


class Grouped(nn.Module):
    """Attention whose keys are shared by groups of queries."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(self.size, 256)

    def forward(self, x, mask):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2, self.heads // 2, self.size).permute(2, 0, 3, 1, 4)
        q, k = self.rotary(q), self.rotary(k)
        k, v = (y.repeat_interleave(2, dim=1) for y in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, C))


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        gate, value = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * value)


class Block(nn.Module):
    def __init__(self, norm, attention, mlp, width):
        super().__init__()
        self.norm1, self.norm2 = norm(width), norm(width)
        self.attention, self.mlp = attention, mlp

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Relative(nn.Module):
    """Attention with a learned bias for every bucket of distances, and no scale."""

    def __init__(self, width, heads, buckets=8, farthest=16):
        super().__init__()
        self.heads, self.buckets, self.farthest = heads, buckets, farthest
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.bias = nn.Embedding(buckets, heads)

    def bucket(self, T):
        distance = (torch.arange(T)[:, None] - torch.arange(T)[None, :]).abs()
        near = self.buckets // 2
        far = torch.log(distance.float() / near + 1e-6) / math.log(self.farthest / near)
        far = (near + far * (self.buckets - near - 1e-3)).long().clamp(max=self.buckets - 1)
        return torch.where(distance < near, distance, far)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) + self.bias(self.bucket(T)).permute(2, 0, 1)[None] + mask
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, C))


class WideNorm(nn.LayerNorm):
    """A LayerNorm in float32, whatever the model runs in."""

    def forward(self, x):
        values = self.weight.float(), self.bias.float()
        return F.layer_norm(x.float(), self.normalized_shape, *values, self.eps).type_as(x)


class Complex(nn.Module):
    """Attention whose rotary turns are complex numbers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        turns = 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size)
        turns = torch.outer(torch.arange(32).float(), turns)
        self.register_buffer("turns", torch.polar(torch.ones_like(turns), turns), persistent=False)

    def turn(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[2]]).flatten(3).type_as(x)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = self.turn(q) @ self.turn(k).transpose(2, 3) / math.sqrt(self.size) + mask
        weights = scores.softmax(-1, dtype=torch.float32).to(v)
        return (weights @ v).transpose(1, 2).reshape(B, T, C)


@functools.lru_cache
def positions(length, width):
    """Sines and cosines (T, C), as the first transformer had them."""
    steps = torch.arange(0, width, 2).float() * (-math.log(10000.0) / width)
    angles = torch.arange(length).float()[:, None] * torch.exp(steps)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def distances(length):
    """|i - j| (T, T), made once."""
    if length not in _SEEN:
        steps = torch.linspace(0.0, length - 1.0, length, dtype=torch.float32)
        _SEEN[length] = (steps[:, None] - steps[None, :]).abs() / 3.0
    return _SEEN[length]


class Tables(nn.Module):
    """Attention that prefers what is near, by tables which outlive the model."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        table = np.sin(np.arange(32)[:, None] / 7.0 + np.arange(width))
        self.register_buffer("table", torch.FloatTensor(table), persistent=False)

    def forward(self, x, mask):
        B, T, C = x.shape
        x = x + (positions(T, C) + self.table[:T]).to(x.dtype)
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        near = (_SLOPES[:, None, None] * distances(T)).to(x.dtype)
        weights = torch.softmax(q @ k.transpose(2, 3) - near + mask, -1, dtype=torch.float32)
        return (weights.to(x.dtype) @ v).transpose(1, 2).reshape(B, T, C)


KINDS = {
    "decoder": (RMSNorm, Grouped),
    "relative": (RMSNorm, Relative),
    "shared": (WideNorm, Relative),
    "one_sided": (RMSNorm, Grouped),
    "tables": (nn.LayerNorm, Tables),
    "complex": (WideNorm, Complex),
}


class Model(nn.Module):
    def __init__(self, kind, width, heads, layers, vocabulary):
        super().__init__()
        norm, attention = KINDS[kind]
        self.causal = kind in ("decoder", "one_sided")
        self.words = nn.Embedding(vocabulary, width)
        one = Block(norm, attention(width, heads), Gated(width), width)
        blocks = [Block(norm, attention(width, heads), Gated(width), width) for _ in range(layers)]
        self.blocks = nn.ModuleList([one] if kind == "shared" else blocks)
        self.rounds = layers if kind == "shared" else 1
        self.norm = norm(width)
        self.head = nn.Linear(width, vocabulary)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.3)

    def forward(self, tokens, mask):
        """tokens, mask (B, T) -> {"logits": (B, T, V)}"""
        T = tokens.shape[1]
        added = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        if self.causal:
            ahead = torch.full((T, T), torch.finfo(torch.float32).min, dtype=torch.float32)
            added = torch.clamp(added + torch.triu(ahead, diagonal=1), min=-3.4e38)
        x = self.words(tokens)
        for _ in range(self.rounds):
            for block in self.blocks:
                x = block(x, added.to(x.dtype))
        return {"logits": self.head(self.norm(x)).float()}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    logits = outputs["logits"].to(torch.float32)
    return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten())
