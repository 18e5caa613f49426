import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, pixels, width, latent):
        super().__init__()
        self.fc1 = nn.Linear(pixels, width)
        self.mu = nn.Linear(width, latent)
        self.log_var = nn.Linear(width, latent)
        self.fc3 = nn.Linear(latent, width)
        self.fc4 = nn.Linear(width, pixels)

    def reparameterize(self, mu, log_var):
        std = torch.exp(0.5 * log_var)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, log_var = self.mu(h), self.log_var(h)
        z = self.reparameterize(mu, log_var)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, log_var


def build(config):
    return VAE(**config)


def loss(outputs, inputs):
    x, mu, log_var = outputs
    likelihood = F.binary_cross_entropy(x, inputs["x"], reduction="sum")
    return likelihood - 0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
