import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.ffn = nn.Linear(width, 4 * width)
        self.ffn_output = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.ffn_output(F.gelu(self.ffn(x), approximate="tanh")))


class Albert(nn.Module):
    def __init__(self, words, small, width, heads, depth):
        super().__init__()
        self.depth = depth
        self.words = nn.Embedding(words, small, padding_idx=0)
        self.kinds = nn.Embedding(2, small)
        self.places = nn.Embedding(16, small)
        self.norm = nn.LayerNorm(small, eps=1e-12)
        self.wider = nn.Linear(small, width)
        self.layer = Layer(width, heads)
        self.dense = nn.Linear(width, small)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, ids, kinds):
        places = torch.arange(ids.shape[1]).expand(1, -1)
        x = self.words(ids) + self.kinds(kinds) + self.places(places)
        x = self.wider(self.norm(x))
        hidden = []
        for _ in range(self.depth):
            x = self.layer(x)
            hidden.append(x)
        scores = F.linear(torch.tanh(self.dense(x)), self.words.weight, self.bias)
        return {"scores": scores, "hidden": tuple(hidden)}


def build(config):
    return Albert(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["scores"].transpose(1, 2), inputs["labels"])
