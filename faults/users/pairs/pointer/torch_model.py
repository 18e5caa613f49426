import math

import torch
from torch import nn
from torch.nn import functional as F


class Pointer(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.hidden = nn.Linear(features, width)
        self.score = nn.Linear(width, 1)

    def forward(self, x, lengths):
        scores = self.score(torch.tanh(self.hidden(x))).squeeze(-1)  # (B, T)
        beyond = torch.arange(x.shape[1]) >= lengths[:, None]
        mask = torch.zeros_like(scores).masked_fill(beyond, -math.inf)
        return {"logits": scores + mask, "mask": mask}


def build(config):
    return Pointer(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
