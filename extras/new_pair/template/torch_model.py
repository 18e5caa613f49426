"""my_pair, the reference: 1. put the PyTorch model here, or import it from a file beside."""

from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self, features, width, classes, dropout):
        super().__init__()
        self.inner = nn.Linear(features, width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)
        for layer in (self.inner, self.head):
            nn.init.normal_(layer.weight, std=0.2)
            nn.init.zeros_(layer.bias)

    def forward(self, features):
        """features (B, F) -> {"logits": (B, classes)}; what it returns may nest as you like"""
        return {"logits": self.head(self.dropout(F.gelu(self.inner(features))))}


def build(config):
    """The model of one of CONFIGS."""
    return Classifier(**config)


def loss(outputs, inputs):
    """4. One scalar, from what forward returns and what make_inputs gives."""
    return F.cross_entropy(outputs["logits"], inputs["labels"])
