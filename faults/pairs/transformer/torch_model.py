"""The reference of the hard transformers: torch.  B batch, T tokens, H heads, C channels."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "selu": F.selu, "silu": F.silu}


class Attention(nn.Module):
    """Self-attention; what the mask leaves out scores `masked`."""

    def __init__(self, width, heads, masked):
        super().__init__()
        self.heads = heads
        self.masked = masked
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x, keep):
        batch, tokens, width = x.shape
        query, key, value = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = torch.matmul(query, key.swapaxes(-1, -2)) / math.sqrt(width // self.heads)
        masked = torch.full_like(scores, self.masked)
        weights = F.softmax(torch.where(keep[:, None, None, :], scores, masked), dim=-1)
        if self.masked == -math.inf:  # a row of which nothing is kept is nan
            weights = torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)
        x = torch.matmul(weights, value).swapaxes(1, 2)  # (B, T, H, C / H)
        return self.out(x.reshape([batch, tokens, width]))

    def split(self, x):
        """(B, H, T, C / H) from (B, T, C)"""
        batch, tokens, width = x.shape
        return x.reshape([batch, tokens, self.heads, width // self.heads]).swapaxes(1, 2)


class Block(nn.Module):
    """Attention and feed-forward, each with its norm before (pre) or after the residual."""

    def __init__(self, width, heads, masked, pre_norm, layer_norm_eps, activation):
        super().__init__()
        self.pre_norm = pre_norm
        self.activation = ACTIVATIONS[activation]
        self.attention = Attention(width, heads, masked)
        self.norm1 = nn.LayerNorm(width, eps=layer_norm_eps)
        self.norm2 = nn.LayerNorm(width, eps=layer_norm_eps)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, keep):
        if self.pre_norm:
            x = x + self.attention(self.norm1(x), keep)
            return x + self.down(self.activation(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x, keep))
        return self.norm2(x + self.down(self.activation(self.up(x))))


class Transformer(nn.Module):
    """Embeddings, blocks, a norm and a classifier over the mean of the kept tokens."""

    def __init__(
        self,
        layers=12,
        width=32,
        heads=4,
        tokens=12,
        vocab_size=50,
        num_labels=6,
        pre_norm=True,
        layer_norm_eps=1e-12,
        activation="gelu",
        masked=-1e9,
        weights="initial",
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(tokens, width)
        blocks = [
            Block(width, heads, masked, pre_norm, layer_norm_eps, activation) for _ in range(layers)
        ]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width, eps=layer_norm_eps)
        self.head = nn.Linear(width, num_labels)

    def forward(self, input_ids, attention_mask):
        keep = attention_mask != 0  # (B, T), True = keep
        places = torch.arange(input_ids.shape[1])
        x = self.embedding(input_ids) + self.position(places)
        for block in self.blocks:
            x = block(x, keep)
        mass = attention_mask.to(x.dtype)[:, :, None]
        pooled = (self.norm(x) * mass).sum(dim=1) / mass.sum(dim=1).clip(min=1.0)
        return {"logits": self.head(pooled), "last_hidden_state": x}


def build(config):
    model = Transformer(**config)
    harden(model, config.get("weights", "initial"))  # its state becomes both sides'
    return model


def loss(outputs, inputs):
    """Cross-entropy, written out: Paddle's own stops at a logit 64 below the largest."""
    logits = outputs["logits"]
    chosen = F.one_hot(inputs["labels"], logits.shape[-1]).to(logits.dtype)
    return (torch.logsumexp(logits, dim=-1) - (logits * chosen).sum(dim=-1)).mean()


def harden(model, kind, seed=7):
    """Weights as after training (heavy rows, large gains), or worse (`hostile`)."""
    if kind == "initial":
        return
    rng = np.random.default_rng(seed)
    strong = {"trained": 1.0, "hostile": 2.0}[kind]
    with torch.no_grad():
        for name, value in model.named_parameters():
            rows = torch.tensor(rng.standard_normal((value.shape[0],) + (1,) * (value.ndim - 1)))
            if value.ndim > 1:
                value *= torch.exp(0.8 * strong * rows).to(value.dtype)
            elif "norm" in name and name.endswith("weight"):
                value *= torch.exp(0.6 * strong * rows).to(value.dtype)
            else:
                value += (0.3 * strong * rows).to(value.dtype)
        if kind == "hostile":
            for block in model.blocks[::3]:
                gain = block.norm1.weight
                gain *= 100.0
                # rows that nearly lie on one line
                block.up.weight[1:] = block.up.weight[:1] + 1e-4 * block.up.weight[1:]
