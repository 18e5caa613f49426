"""The reference: encoder, decoder, attention on top; B batch, S and T tokens, C channels."""

import torch
from torch import nn
from torch.nn import functional as F


class SmallTransformer(nn.Module):
    def __init__(self, vocab_size, channels, heads, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, channels)
        layer = nn.TransformerEncoderLayer(channels, heads, hidden, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.decoder = nn.TransformerDecoderLayer(
            channels, heads, hidden, activation="gelu", batch_first=True, norm_first=True
        )
        self.attention = nn.MultiheadAttention(channels, heads, batch_first=True)
        self.head = nn.Linear(channels, vocab_size, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, source, target):
        memory = self.encoder(self.embedding(source))  # (B, S, C)
        tokens = target.shape[1]
        later = torch.triu(torch.full([tokens, tokens], -1e9), diagonal=1)  # (T, T), to be added
        x = self.decoder(self.embedding(target), memory, later)  # (B, T, C)
        attended, _ = self.attention(x, memory, memory)
        return {"logits": self.head(attended), "states": [memory, {"decoded": (x,)}]}


def build(config):
    return SmallTransformer(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"].flatten(0, 1), inputs["labels"].flatten())
