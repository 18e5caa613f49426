"""The reference of the single operators: torch."""

import torch
from torch import nn
from torch.nn import functional as F


def as_images(x):
    """(B, 3, 8, 8) from (B, 192)"""
    return x.reshape([-1, 3, 8, 8])


def as_complex(x):
    """(B, N / 2) complex from (B, N)"""
    return torch.complex(x[:, ::2], x[:, 1::2])


def as_real(x):
    """(B, N) from (B, N / 2) complex"""
    return torch.cat([torch.real(x), torch.imag(x)], dim=-1)


# Each framework's own: in Paddle, label smoothing is an operator of its own.
above = getattr(F, "threshold", None) or F.thresholded_relu


def smoothed(x, labels):
    if hasattr(F, "label_smooth"):
        soft = F.label_smooth(F.one_hot(labels, x.shape[-1]).to(x.dtype))
        return F.cross_entropy(x, soft, soft_label=True)
    return F.cross_entropy(x, labels, label_smoothing=0.1)


OPERATORS = {
    "selu": lambda x, other: F.selu(x),
    "pow": lambda x, other: torch.abs(x) ** 0.3,
    "elu": lambda x, other: F.elu(x, 0.7),
    "celu": lambda x, other: F.celu(x, 0.7),
    "hardsigmoid": lambda x, other: F.hardsigmoid(x),
    "thresholded_relu": lambda x, other: above(x, 0.3, 0.1),
    "exp_complex": lambda x, other: as_real(torch.exp(as_complex(x))),
    "sigmoid_complex": lambda x, other: as_real(torch.sigmoid(as_complex(x))),
    "lp_pool1d": lambda x, other: F.lp_pool1d(as_images(x).flatten(2), 2.0, 3),
    "lp_pool2d": lambda x, other: F.lp_pool2d(as_images(x), 2.0, 3, 2),
    "digamma": lambda x, other: torch.digamma(F.softplus(x) + 0.1),
    "hardswish": lambda x, other: F.hardswish(x),
    "avg_pool2d": lambda x, other: F.avg_pool2d(as_images(x), 3, 2),
    "max_pool": lambda x, other: F.max_pool2d(as_images(x), 3, 2),
    "layer_norm": lambda x, other: F.layer_norm(x, x.shape[-1:]),
    # Without a weight Paddle 3.3.1's gradient of group_norm is wrong on CPU.
    "group_norm": lambda x, other: F.group_norm(as_images(x), 3, weight=torch.ones([3])),
    "sum": lambda x, other: x.sum(dim=-1),
    "mean": lambda x, other: x.mean(dim=-1),
    "var": lambda x, other: x.var(dim=-1),
    "std": lambda x, other: x.std(dim=-1),
    "norm": lambda x, other: torch.linalg.norm(x, dim=-1),
    "logsumexp": lambda x, other: torch.logsumexp(x, dim=-1),
    "softmax": lambda x, other: F.softmax(x, dim=-1),
    "log_softmax": lambda x, other: F.log_softmax(x, dim=-1),
    "cumsum": lambda x, other: torch.cumsum(x, dim=-1),
    "dot": lambda x, other: torch.matmul(x, other.swapaxes(0, 1)),
    "difference": lambda x, other: (x + other) - x,
    "tanh": lambda x, other: torch.tanh(x),
    "sigmoid": lambda x, other: torch.sigmoid(x),
    "mix": lambda x, other: x * other + 0.5 * x,
    "scale": lambda x, other: x * 0.75,
    "relu_dead": lambda x, other: F.relu(x - 2.0),
    "gate": lambda x, other: x * torch.sigmoid(40.0 * other - 60.0),
    "exp": lambda x, other: torch.exp(x),
    "log": lambda x, other: torch.log(x + 1e-12),
    "sin": lambda x, other: torch.sin(x),
    "erf": lambda x, other: torch.erf(x),
    "divide": lambda x, other: x / (torch.abs(other) + 1e-6),
    "sqrt": lambda x, other: torch.sqrt(x + 1e-12),
    "normalize": lambda x, other: F.normalize(x, dim=-1),
    "cosine": lambda x, other: F.cosine_similarity(x, other, dim=-1),
    "gelu": lambda x, other: F.gelu(x),
    "silu": lambda x, other: F.silu(x),
    "softplus": lambda x, other: F.softplus(x),
    "leaky_relu": lambda x, other: F.leaky_relu(x, 0.2),
    "mish": lambda x, other: F.mish(x),
    "clip": lambda x, other: torch.clip(x, -1.0, 1.0),
    "prod": lambda x, other: torch.prod(x + 0.5, dim=-1),
    "smooth_l1": lambda x, other: F.smooth_l1_loss(x, other, reduction="none"),
    "kl": lambda x, other: F.kl_div(
        F.log_softmax(x, dim=-1), F.softmax(other.detach(), dim=-1), reduction="none"
    ),
    "label_smooth": lambda x, other: smoothed(x, other.argmax(-1)),
    "interpolate": lambda x, other: F.interpolate(
        as_images(x), size=[16, 16], mode="bilinear", align_corners=False
    ),
}


class Operator(nn.Module):
    """One operator, as a user's own module."""

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def forward(self, x, other):
        return OPERATORS[self.operator](x, other)


class Model(nn.Module):
    """A gain that is trained, an operator, and a further gain."""

    def __init__(self, operator, loss_scale):
        super().__init__()
        self.loss_scale = loss_scale
        self.gain = nn.Parameter(torch.empty([1]))
        nn.init.ones_(self.gain)
        self.operator = Operator(operator)

    def forward(self, x, other):
        return {"y": self.operator(x * self.gain, other), "loss_scale": self.loss_scale}


def build(config):
    return Model(**config)


def loss(outputs, inputs):
    y = outputs["y"]
    return (y * y - 0.25 * y).mean() * outputs["loss_scale"]
