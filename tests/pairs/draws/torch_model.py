"""The reference: in-place draws, torch.distributions, towers in the order of their names."""

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        keep = 1.0 - self.p
        return x * x.new_empty((x.shape[0], 1, 1)).bernoulli_(keep) / keep


class Tower(nn.Module):
    """A variational layer."""

    def __init__(self, width):
        super().__init__()
        self.mean = nn.Linear(width, width)
        self.log_variance = nn.Linear(width, width)

    def forward(self, x):
        mean, log_variance = self.mean(x), self.log_variance(x)
        return mean + torch.exp(0.5 * log_variance) * torch.randn_like(log_variance)


class Draws(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.steps = nn.Embedding(10, width)
        self.a, self.b = Tower(width), Tower(width)
        self.path = DropPath(p)
        self.code = nn.Linear(width, 5)
        self.book = nn.Linear(5, width)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens):
        x = tokens + self.steps(torch.randint(0, 10, (tokens.shape[0],))).unsqueeze(1)
        order = torch.rand(x.shape[:2]).argsort(dim=1)[:, :4]  # the tokens that are kept
        x = torch.take_along_dim(x, order.unsqueeze(-1), dim=1)
        x = x + torch.normal(0.5, 0.1, size=x.shape)
        x = x + self.path(self.a(x) * self.b(x))
        hidden = torch.rand(x.shape[:2], generator=torch.Generator().manual_seed(3)) < 0.3
        x = x.masked_fill(hidden.unsqueeze(-1), 0.0)
        code = self.book(F.gumbel_softmax(self.code(x), tau=0.7, hard=True))
        spread = 0.1 + torch.sigmoid(code)
        x = x + Normal(code, spread).rsample()
        x = x + F.rrelu(x, training=True) + torch.bernoulli(spread.detach().clamp(0, 1))
        return {"logits": self.head(x.mean(dim=1))}


def build(config):
    return Draws(**config)


def loss(outputs, inputs):
    noisy = outputs["logits"] + torch.zeros_like(outputs["logits"]).exponential_(2.0)
    return F.cross_entropy(noisy, inputs["labels"])
