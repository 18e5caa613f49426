import torch
from torch import nn
from torch.nn import functional as F


class Field(nn.Module):
    def __init__(self, kinds, width, bases):
        super().__init__()
        self.embed = nn.Embedding(kinds, width)
        self.radial = nn.Linear(bases, width)
        self.out = nn.Linear(width, 1)
        self.register_buffer("centres", torch.linspace(0.0, 4.0, bases))

    def energy(self, places, kinds):
        apart = places[:, :, None] - places[:, None, :]
        distance = torch.sqrt((apart**2).sum(-1) + 1e-6)
        basis = torch.exp(-((distance[..., None] - self.centres) ** 2))
        own = torch.eye(places.shape[1], dtype=torch.bool)
        weights = self.radial(basis).masked_fill(own[None, :, :, None], 0.0)
        h = self.embed(kinds)
        h = h + (weights * h[:, None]).sum(2)
        return self.out(torch.tanh(h)).sum((1, 2))

    def forward(self, places, kinds):
        with torch.enable_grad():
            places = places if places.requires_grad else places.clone().requires_grad_(True)
            energy = self.energy(places, kinds)
            (slope,) = torch.autograd.grad(energy.sum(), places, create_graph=True)
        return {"energy": energy, "forces": -slope}


def build(config):
    return Field(**config)


def loss(outputs, inputs):
    energy = F.mse_loss(outputs["energy"], inputs["energy"].detach())
    return energy + 10.0 * F.mse_loss(outputs["forces"], inputs["forces"].detach())
