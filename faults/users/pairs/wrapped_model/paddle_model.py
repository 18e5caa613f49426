from paddle import nn
from paddle.nn import functional as F


class Backbone(nn.Layer):
    def __init__(self, features, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return {"last_hidden_state": self.norm(self.body(x))}


class ForClassification(nn.Layer):
    def __init__(self, features, width, classes):
        super().__init__()
        self.backbone = Backbone(features, width)
        self.head = nn.Linear(width, classes)

    def forward(self, features):
        return self.head(self.backbone(features)["last_hidden_state"])


def build(config):
    return ForClassification(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
