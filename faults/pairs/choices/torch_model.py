"""The reference of the models that choose: torch.  B batch, T tokens, C channels, E experts."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from twincheck.torch_side import choose, choose_order, choose_top_k, named


class Experts(nn.Module):
    """Each token goes to two of the experts; every second expert is nearly its neighbour."""

    def __init__(self, width, count=6):
        super().__init__()
        self.count = count
        self.gate = nn.Linear(width, count)
        self.up = nn.Linear(width, count * width)

    def forward(self, x, keep):
        batch, tokens, width = x.shape
        scores = self.gate(x)
        pairs = scores.reshape([batch, tokens, self.count // 2, 2]).mean(dim=-1, keepdim=True)
        scores = (pairs + 1e-8 * scores.reshape([batch, tokens, self.count // 2, 2])).reshape(
            [batch, tokens, self.count]
        )
        weights, index = torch.topk(F.softmax(scores, dim=-1), 2, dim=-1)  # (B, T, 2)
        outputs = self.up(x).reshape([batch, tokens, self.count, width])
        index = index.unsqueeze(-1).expand([batch, tokens, 2, width])
        return (torch.take_along_dim(outputs, index, dim=2) * weights.unsqueeze(-1)).sum(dim=2)


class Codebook(nn.Module):
    """Each token becomes the nearest of the codes, which come in pairs."""

    def __init__(self, width, count=12):
        super().__init__()
        self.codes = nn.Embedding(count, width)

    def forward(self, x, keep):
        codes = self.codes.weight  # (E, C)
        twins = torch.cat([codes, codes + 1e-8 * codes.flip([0])], dim=0)
        distances = ((x.unsqueeze(2) - twins) ** 2).sum(dim=-1)  # (B, T, 2E)
        nearest = torch.argmin(distances, dim=-1)
        chosen = F.one_hot(nearest, twins.shape[0]).to(x.dtype)
        return x + (torch.matmul(chosen, twins) - x)


class Pruned(nn.Module):
    """Attention that only the T / 3 best queries take part in, as in ProbSparse attention."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.mix = nn.Linear(width, width)

    def forward(self, x, keep):
        scores = self.score(x).squeeze(-1)  # (B, T)
        scores = scores.masked_fill(keep == 0, -math.inf)
        index = scores.topk(x.shape[1] // 3, dim=-1)[1]
        index = index.unsqueeze(-1).expand([-1, -1, x.shape[2]])
        chosen = torch.take_along_dim(x, index, dim=1)
        return x.mean(dim=1, keepdim=True) + torch.tanh(self.mix(chosen))


class Sorted(nn.Module):
    """Tokens in the order of their scores, then a sum by position."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.place = nn.Embedding(24, width)

    def forward(self, x, keep):
        order = torch.argsort(self.score(x).squeeze(-1), dim=-1, descending=True)
        order = order.unsqueeze(-1).expand([-1, -1, x.shape[2]])
        return torch.take_along_dim(x, order, dim=1) * self.place.weight


class Hashed(nn.Module):
    """A bucket for each token by the largest of rotations and their opposites."""

    def __init__(self, width, buckets=4):
        super().__init__()
        self.rotation = nn.Linear(width, buckets // 2, bias=False)
        self.values = nn.Embedding(buckets, width)

    def forward(self, x, keep):
        turned = self.rotation(x - x.roll(1, 1))
        buckets = torch.cat([turned, -turned], dim=-1).argmax(-1)
        return x * self.values(buckets)


class Asked(nn.Module):
    """Choices of all three kinds by the workbench's own choose, choose_top_k and choose_order."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x, keep):
        scores = self.score(x).squeeze(-1)  # (B, T)
        best = choose(self, "best", scores)
        few = choose_top_k(self, "few", scores, 5)
        order = choose_order(self, "order", scores)
        index = torch.cat([best.unsqueeze(-1), few, order], dim=-1)
        index = index.unsqueeze(-1).expand([-1, -1, x.shape[2]])
        return torch.take_along_dim(x, index, dim=1) * torch.sigmoid(scores).mean()


class LargestOfAll(nn.Module):
    """The place of the largest value of a sample, and of all samples together."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, keep):
        y = self.mix(x)
        here = y.reshape([y.shape[0], -1]).argmax(-1, keepdim=True)
        there = torch.argmax(y)
        picked = torch.take_along_dim(y.reshape([y.shape[0], -1]), here, dim=1)  # (B, 1)
        return torch.tanh(y) * picked.unsqueeze(-1) + y.reshape([-1])[there]


KINDS = {
    "experts": Experts,
    "codebook": Codebook,
    "pruned": Pruned,
    "sorted": Sorted,
    "hashed": Hashed,
    "asked": Asked,
    "largest_of_all": LargestOfAll,
}


class Model(nn.Module):
    """One choosing layer between two linear ones."""

    def __init__(self, kind, width=16, num_labels=5):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.layer = KINDS[kind](width)
        self.last = nn.Linear(width, width)
        self.head = nn.Linear(width, num_labels)

    def forward(self, x, keep):
        x = self.last(self.layer(self.first(x), keep))
        return {"logits": self.head(torch.tanh(x).mean(dim=1)), "hidden": x}


def build(config):
    return named(Model(**config))


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
