"""A small causal language model, without dropout: two trainers can have it compute the same."""

import torch
from torch import nn
from torch.nn import functional as F


class SmallLM(nn.Module):
    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 2 * width)
        self.out = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocabulary)
        for module in (self.embed, self.mix, self.out, self.head):
            nn.init.normal_(module.weight, std=0.2)
        for module in (self.mix, self.out, self.head):
            nn.init.zeros_(module.bias)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.places
        seen = x.cumsum(1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1)
        x = x + self.out(torch.tanh(self.mix(self.norm(seen))))
        return {"logits": self.head(x)}


def build(config):
    return SmallLM(**config)


def loss(outputs, inputs):
    logits, labels = outputs["logits"], inputs["labels"]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
