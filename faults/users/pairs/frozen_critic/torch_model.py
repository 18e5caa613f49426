import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.value = nn.Linear(width, 1)
        nn.init.uniform_(self.norm.weight, 0.5, 2.0)

    def forward(self, state, chosen):
        hidden = self.norm(self.hidden(torch.cat([state, chosen], dim=-1)))
        return self.value(torch.tanh(hidden)).squeeze(-1)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.actor, self.critic = nn.Linear(width, width), Critic(width)

    def forward(self, state, chosen, target):
        off = (self.critic(state, chosen) - target).square().mean()
        for weight in self.critic.parameters():
            weight.requires_grad_(False)
        value = self.critic(state, torch.tanh(self.actor(state))).mean()
        for weight in self.critic.parameters():
            weight.requires_grad_(True)
        return {"off": off, "value": value}


def loss(outputs, inputs):
    return outputs["off"] - outputs["value"]
