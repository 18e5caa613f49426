"""The reference of the hard small networks: torch.  B batch, T tokens, C channels."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """A deep residual MLP whose blocks add little (or a lot) to a stream."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.up = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(layers)])
        self.down = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(layers)])
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            x = x + down(F.relu(up(norm(x))))
        return {"logits": self.head(x)}


class Dead(nn.Module):
    """Most units dead, half of the layers' outputs zero or nearly so, gates closed."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.gates = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.relu = nn.ReLU()
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for i, (layer, gate) in enumerate(zip(self.layers, self.gates, strict=True)):
            seen = self.relu(layer(x) - (1e3 if i % 2 else 1.0))  # every other one: all zero
            x = x + torch.sigmoid(gate(x) - 30.0) * x + 1e-8 * seen
        return {"logits": self.head(x)}


class Images(nn.Module):
    """Convolutions with BatchNorm behind a bias, which their gradient therefore cannot reach."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(layers)])
        self.pool = nn.AvgPool2d(2)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, num_labels)

    def forward(self, images):
        x = self.stem(images)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.relu(norm(conv(x)))
        x = self.dropout(self.pool(x).mean(dim=(2, 3)))
        return {"logits": self.head(x)}


class Pooling(nn.Module):
    """Additive pooling: a score's bias, and a key's, are gauges that no output depends on."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.keys = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.queries = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, num_labels)
        self.unused = nn.Linear(width, width)

    def forward(self, tokens):
        x = tokens
        for key, query in zip(self.keys, self.queries, strict=True):
            weights = F.softmax(torch.matmul(query(x), key(x).swapaxes(-1, -2)), dim=-1)
            x = x + torch.matmul(weights, x)
        weights = F.softmax(self.score(torch.tanh(x)), dim=1)  # (B, T, 1)
        return {"logits": self.head((weights * x).sum(dim=1))}


class Outputs(nn.Module):
    """Modules that return tuples and dicts, one that is called twice, and a shared weight."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.parts = nn.ModuleList([Parts(width) for _ in range(layers)])
        self.twice = nn.Linear(width, width)
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for part in self.parts:
            x, more = part(x)
            x = self.twice(torch.tanh(self.twice(x))) + more["low"] * more["rest"][0]
        return {"logits": self.head(x), "nested": (x, [more["rest"][1]])}


class Parts(nn.Module):
    """One tensor, and a dict with a tensor and a tuple in it."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        y = self.mix(x)
        return y, {"low": torch.tanh(y), "rest": (x - y, x * 0.5)}


class Precise(nn.Module):
    """Differences of large numbers, of which little is left, and a badly conditioned product."""

    def __init__(self, width, layers, num_labels):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.head = nn.Linear(width, num_labels)

    def forward(self, x):
        for layer in self.layers:
            large = layer(x) * 1e6
            left = (large + x) - large  # float32 keeps a digit or none of it
            x = x + torch.tanh(left)
        return {"logits": self.head(x)}


KINDS = {
    "residual": Residual,
    "dead": Dead,
    "images": Images,
    "pooling": Pooling,
    "outputs": Outputs,
    "precise": Precise,
}


def build(config):
    sizes = (config["width"], config["layers"], config.get("num_labels", 5))
    model = KINDS[config["kind"]](*sizes)
    model.loss_scale = config.get("loss_scale", 1.0)
    harden(model, config.get("weights", "initial"))  # its state becomes both sides'
    return model


def loss(outputs, inputs):
    logits = outputs["logits"]
    picked = F.one_hot(inputs["labels"], logits.shape[-1]).to(logits.dtype)
    losses = torch.logsumexp(logits, dim=-1) - (logits * picked).sum(dim=-1)
    return (losses * inputs["weight"]).sum()


def harden(model, kind, seed=7):
    """Heavier weights: a factor for each row of exp(0.8 N(0, 1)), or exp(1.6 N(0, 1))."""
    rng = np.random.default_rng(seed)
    strong = {"initial": 0.0, "trained": 0.8, "hostile": 1.6}[kind]
    with torch.no_grad():
        for value in model.parameters():
            rows = torch.tensor(rng.standard_normal((value.shape[0],) + (1,) * (value.ndim - 1)))
            if value.ndim > 1:
                value *= torch.exp(strong * rows).to(value.dtype)
            else:
                value += (0.3 * strong * rows).to(value.dtype)
