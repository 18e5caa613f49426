"""my_pair, the port: 2. put the Paddle model here, with the reference's names where you can."""

from paddle import nn
from paddle.nn import functional as F


class Classifier(nn.Layer):
    def __init__(self, features, width, classes, dropout):
        super().__init__()
        self.inner = nn.Linear(features, width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)
        for layer in (self.inner, self.head):
            nn.initializer.Normal(std=0.2)(layer.weight)
            nn.initializer.Constant(0.0)(layer.bias)

    def forward(self, features):
        """features (B, F) -> {"logits": (B, classes)}"""
        return {"logits": self.head(self.dropout(F.gelu(self.inner(features))))}


def build(config):
    """The model of one of CONFIGS."""
    return Classifier(**config)


def loss(outputs, inputs):
    """4. The same as in torch_model.py."""
    return F.cross_entropy(outputs["logits"], inputs["labels"])
