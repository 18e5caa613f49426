import torch
from torch import nn
from torch.nn import functional as F


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self, width, experts, chosen, classes):
        super().__init__()
        self.chosen = chosen
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([Expert(width) for _ in range(experts)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights = F.softmax(self.gate(flat), dim=-1)
        top, index = torch.topk(weights, self.chosen, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        y = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, places = torch.where(index == i)
            y = y.index_add(0, rows, top[rows, places, None] * expert(flat[rows]))
        load = weights.mean(0)
        return {"logits": self.head(x + y.view_as(x)), "load": (load * load).sum()}


def build(config):
    return Mixture(**config)


def loss(outputs, inputs):
    main = F.cross_entropy(outputs["logits"].flatten(0, 1), inputs["labels"].flatten())
    return main + 0.01 * outputs["load"]
