import math

import torch
from torch import nn
from torch.nn import functional as F


class T5Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def bucket(distance, both, buckets, longest=12):
    offset = torch.zeros_like(distance)
    if both:
        buckets //= 2
        offset = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    far = torch.log(distance.float() / exact) / math.log(longest / exact) * (buckets - exact)
    far = torch.min(exact + far.long(), torch.full_like(distance, buckets - 1))
    return offset + torch.where(distance < exact, distance, far)


class Attention(nn.Module):
    def __init__(self, width, heads, buckets=0, both=True):
        super().__init__()
        self.heads, self.buckets, self.both = heads, buckets, both
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        if buckets:
            self.relative = nn.Embedding(buckets, heads)

    def forward(self, x, memory):
        q, k, v = (
            f(y).view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)
            for f, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = torch.matmul(q, k.transpose(3, 2))
        if self.buckets:
            places = torch.arange(x.shape[1])
            places = bucket(places[None, :] - places[:, None], self.both, self.buckets)
            bias = self.relative(places).permute(2, 0, 1).unsqueeze(0)
            if not self.both:
                bias = bias.masked_fill(torch.ones(bias.shape[-2:]).triu(1).bool(), -1e9)
            scores = scores + bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, buckets, cross):
        super().__init__()
        self.norm1, self.norm2 = T5Norm(width), T5Norm(width)
        self.attention = Attention(width, heads, buckets, both=not cross)
        if cross:
            self.norm3, self.cross = T5Norm(width), Attention(width, heads)
        self.wi = nn.Linear(width, 2 * width, bias=False)
        self.wo = nn.Linear(2 * width, width, bias=False)

    def forward(self, x, memory=None):
        y = self.norm1(x)
        x = x + self.attention(y, y)
        if memory is not None:
            x = x + self.cross(self.norm3(x), memory)
        return x + self.wo(F.relu(self.wi(self.norm2(x))))


class T5(nn.Module):
    def __init__(self, words, width, heads, buckets, layers):
        super().__init__()
        self.shared = nn.Embedding(words, width)
        self.encoder = nn.ModuleList([Block(width, heads, buckets, False) for _ in range(layers)])
        self.decoder = nn.ModuleList([Block(width, heads, buckets, True) for _ in range(layers)])
        self.norm = T5Norm(width)

    def forward(self, source, target):
        memory = self.shared(source)
        for block in self.encoder:
            memory = block(memory)
        start = torch.zeros_like(target[:, :1])
        x = self.shared(torch.cat([start, target[:, :-1]], dim=1))
        for block in self.decoder:
            x = block(x, memory)
        x = self.norm(x) * self.shared.embedding_dim**-0.5
        return {"logits": F.linear(x, self.shared.weight), "memory": memory}


def build(config):
    return T5(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"].flatten(0, 1), inputs["target"].flatten())
