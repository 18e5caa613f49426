import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, experts, groups, open_groups, chosen):
        super().__init__()
        self.groups, self.open_groups, self.chosen = groups, open_groups, chosen
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(experts)])
        self.register_buffer("bias", torch.linspace(-0.9, -0.3, experts))

    def forward(self, x):
        scores = self.gate(x).sigmoid()  # (N, E)
        biased = (scores + self.bias).view(len(x), self.groups, -1)
        best = biased.topk(2, -1)[0].sum(-1).topk(self.open_groups, -1)[1]
        shut = torch.ones(len(x), self.groups, dtype=torch.bool).scatter(1, best, False)
        biased = biased.masked_fill(shut[..., None], -torch.inf).flatten(1)
        index = biased.topk(self.chosen, -1)[1]
        weights = scores.gather(1, index)
        weights = 2.5 * weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, places = torch.where(index == i)
            y = y.index_add(0, rows, weights[rows, places, None] * expert(x[rows]))
        return y
