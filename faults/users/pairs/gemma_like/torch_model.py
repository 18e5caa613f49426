import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.float())).type_as(x)


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3 = (RMSNorm(width) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.act = nn.GELU(approximate="tanh")

    def attend(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = 50.0 * torch.tanh(scores / 50.0)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -1e9).float().softmax(-1).type_as(v)
        return self.o((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.norm2(self.attend(self.norm1(x)))
        y = self.norm3(x)
        return x + self.down(self.act(self.gate(y)) * self.up(y))


class Gemma(nn.Module):
    def __init__(self, words, width, heads, inner, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Layer(width, heads, inner) for _ in range(layers)])
        self.norm = RMSNorm(width)

    def forward(self, input_ids):
        x = self.embed(input_ids) * self.embed.embedding_dim**0.5
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.embed.weight)
        return {"logits": 30.0 * torch.tanh(logits / 30.0)}


def build(config):
    return Gemma(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"].float().transpose(1, 2), inputs["labels"])
