import torch
from torch import nn
from torch.nn import functional as F


class AutoEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1),
            nn.ELU(),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
        )
        self.grow = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.last = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, images):
        code = self.encoder(images)
        x = self.upsample(F.elu(self.grow(code)))
        return {"code": code, "image": torch.tanh(self.last(x))}


def build(config):
    return AutoEncoder(**config)


def loss(outputs, inputs):
    return F.mse_loss(outputs["image"], inputs["images"])
