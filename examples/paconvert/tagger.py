"""A tagger: an embedding, one layer of torch's transformer in its usual layout, a last Linear."""

from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=50, width=16, heads=2, tags=7):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width)
        self.last = nn.Linear(width, tags)

    def forward(self, ids):
        """ids (T, B), time first -> (T, B, tags)"""
        return self.last(self.layer(self.words(ids)))
