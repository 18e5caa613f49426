"""The frameworks' own optimizers: torch_optimizer.py and paddle_optimizer.py are twins."""

import sys

import paddle

from common.sides import optimizer
from common.sides.paddle_tensors import *  # noqa: F403  (handed on)
from common.sides.paddle_weights import trainable

__all__ = ("Optimizer", "sgd_step")
zeros_like = paddle.zeros_like


class Optimizer(optimizer.Optimizer):
    """See there; by this framework's rules."""

    rules = sys.modules[__name__]


def sgd_step(model, lr):
    """One step of the framework's own plain SGD, for the witness of step 4."""
    values = [value for _, value in trainable(model)]
    paddle.optimizer.SGD(lr, parameters=values).step()  # twin: arguments


def adam(values, lr, betas):
    """The framework's own Adam."""
    return paddle.optimizer.Adam(lr, *betas, parameters=values)  # twin: arguments


def adamw(parameters, lr, betas, weight_decay, decayed):
    """The framework's own AdamW, which decays the parameters of these names alone."""
    names = {value.name for n, value in parameters if n in decayed}  # twin: decay
    rule = {"parameters": [v for _, v in parameters], "weight_decay": weight_decay}  # twin: decay
    rule["apply_decay_param_fun"] = names.__contains__  # twin: decay
    return paddle.optimizer.AdamW(lr, *betas, **rule)  # twin: decay


def scale(value, factor):
    """Multiply a tensor in place."""
    value.scale_(factor)  # twin: another name


def set_rate(rule, lr):
    """Take the next step with this learning rate."""
    rate = lr  # twin: where the learning rate is kept
    rule.set_lr(rate)  # twin: where the learning rate is kept


def moment(rule, kind, parameter):
    """What a rule remembers of a parameter, moment1 or moment2; None before its first step."""
    own = kind  # twin: names
    return rule._accumulators[own].get(parameter.name)  # twin: where


def remembered(rule, parameter):
    """Kind -> tensor of what the framework's optimizer keeps for a parameter."""
    own, start = rule.state_dict(), f"{parameter.name}_"  # twin: its names
    return {k[len(start) :]: v for k, v in own.items() if k.startswith(start)}  # twin: its names


def remind(rule, remembered):
    """Give the framework's optimizer back what it kept: (parameter, kind -> tensor) pairs."""
    own = rule.state_dict()  # twin: itself, or a copy
    for parameter, kept in remembered:
        own |= {f"{parameter.name}_{kind}": v for kind, v in kept.items()}  # twin: its names
    rule.set_state_dict(own)  # twin: itself, or a copy
