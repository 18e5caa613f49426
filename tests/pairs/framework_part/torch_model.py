"""The reference, in which nothing is at fault."""

import torch
from torch import nn
from torch.nn import functional as F


class Part(nn.Module):
    """The part of a case: (B, 3, 4, 4) -> (B, 3, 4, 4) but for interpolate's 7 x 7."""

    def __init__(self, kind, fault):
        super().__init__()
        self.kind, self.fault = kind, fault
        if kind == "batch_norm":
            self.norm = nn.BatchNorm2d(3)
        if kind == "norms":
            self.norm = nn.LayerNorm(4, eps=0.999e-3 if fault else 1e-3)

    def forward(self, x):
        factor = 1.0 - 1e-7 if self.fault else 1.0
        if self.kind == "interpolate":
            return factor * F.interpolate(x, size=[7, 7], mode="bilinear", align_corners=False)
        if self.kind == "batch_norm":
            return self.norm(self.norm(x) + x)
        if self.kind == "graph":
            weights = torch.exp(x - x.amax(-1, keepdim=True))
            return weights / (weights.sum(-1, keepdim=True) + (1e-8 if self.fault else 1e-16))
        if self.kind == "experts":
            gate = F.softmax(x, -1)
            return gate * torch.tanh(x) + (factor - gate) * torch.sin(x)
        if self.kind == "norms":
            return self.norm(F.selu(0.03 * x))
        return torch.tanh(x)


class Model(nn.Module):
    def __init__(self, kind, fault, width):
        super().__init__()
        self.kind, self.fault = kind, fault
        self.part = Part(kind, fault)
        size = 7 if kind == "interpolate" else 4
        self.head = nn.Linear(3 * size * size, width)

    def forward(self, x):
        logits = self.head(self.part(x).flatten(1))
        if self.kind == "wide_loss":
            logits = 100.0 * logits
        if self.kind == "tiny_gradients":  # of the first two elements nearly nothing is left
            few = torch.arange(logits.shape[-1]) < 2
            logits = torch.where(few, 1e-8 * logits, logits)
        return {"logits": logits, "wide": self.kind == "wide_loss" and self.fault}


def build(config):
    return Model(**config | {"fault": False})


def loss(outputs, inputs):
    logits = outputs["logits"]
    if outputs["wide"]:
        logits = logits * (1.0 + 1e-6)
    return F.cross_entropy(logits, inputs["labels"])
