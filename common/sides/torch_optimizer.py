"""The frameworks' own optimizers: torch_optimizer.py and paddle_optimizer.py are twins."""

import sys

import torch

from common.sides import optimizer
from common.sides.torch_tensors import *  # noqa: F403  (handed on)
from common.sides.torch_weights import trainable

__all__ = ("Optimizer", "sgd_step")
zeros_like = torch.zeros_like


class Optimizer(optimizer.Optimizer):
    """See there; by this framework's rules."""

    rules = sys.modules[__name__]


def sgd_step(model, lr):
    """One step of the framework's own plain SGD, for the witness of step 4."""
    values = [value for _, value in trainable(model)]
    torch.optim.SGD(values, lr=lr).step()  # twin: arguments


def adam(values, lr, betas):
    """The framework's own Adam."""
    return torch.optim.Adam(values, lr=lr, betas=betas)  # twin: arguments


def adamw(parameters, lr, betas, weight_decay, decayed):
    """The framework's own AdamW, which decays the parameters of these names alone."""
    undecayed = [v for n, v in parameters if n not in decayed]  # twin: decay
    values = [v for n, v in parameters if n in decayed]  # twin: decay
    groups = [{"params": values}, {"params": undecayed, "weight_decay": 0.0}]  # twin: decay
    return torch.optim.AdamW(groups, lr, betas, 1e-8, weight_decay)  # twin: decay


def scale(value, factor):
    """Multiply a tensor in place."""
    value.mul_(factor)  # twin: another name


def set_rate(rule, lr):
    """Take the next step with this learning rate."""
    for group in rule.param_groups:  # twin: where the learning rate is kept
        group["lr"] = lr  # twin: where the learning rate is kept


def moment(rule, kind, parameter):
    """What a rule remembers of a parameter, moment1 or moment2; None before its first step."""
    own = {"moment1": "exp_avg", "moment2": "exp_avg_sq"}[kind]  # twin: names
    return rule.state.get(parameter, {}).get(own)  # twin: where


def remembered(rule, parameter):
    """Kind -> tensor of what the framework's optimizer keeps for a parameter."""
    own = rule.state.get(parameter, {})  # twin: its names
    return dict(own)  # twin: its names


def remind(rule, remembered):
    """Give the framework's optimizer back what it kept: (parameter, kind -> tensor) pairs."""
    own = rule.state  # twin: itself, or a copy
    for parameter, kept in remembered:
        own[parameter] = kept  # twin: its names
    rule.state = own  # twin: itself, or a copy
