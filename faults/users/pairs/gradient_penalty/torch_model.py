import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.fc1 = nn.Linear(features, width)
        self.fc2 = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def score(self, x):
        return self.out(torch.tanh(self.fc2(torch.tanh(self.fc1(x))))).squeeze(-1)

    def forward(self, real, made, mix):
        with torch.enable_grad():
            between = (mix * real + (1 - mix) * made).detach().requires_grad_(True)
            score = self.score(between)
            (slope,) = torch.autograd.grad(score.sum(), between, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        return {"real": self.score(real), "made": self.score(made), "penalty": penalty}


def build(config):
    return Critic(**config)


def loss(outputs, inputs):
    return outputs["made"].mean() - outputs["real"].mean() + 10.0 * outputs["penalty"]
