"""A framework's layers and hooks, for probes.py: torch_probes.py and paddle_probes.py are twins."""

import sys

import torch
from torch import nn

from common.sides.probes import Probes, join_site  # noqa: F401  (handed on)
from common.sides.torch_tensors import *  # noqa: F403  (handed on)

FULL = tuple(f"torch.{n}" for n in ("float32", "float64", "complex64", "complex128"))
LAYERS = ("torch.nn",)  # twin: where the framework's layers are
MODULE = nn.Module
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList)
CONTAINERS += tuple(getattr(nn, n) for n in ("ParameterDict",) if hasattr(nn, n))  # newer
RECURRENT = nn.RNNBase  # twin: where it is
CELLS = ()  # twin: these give their output and their states


class _Replace(torch.autograd.Function):
    """Put the reference's value in a tensor's place; the gradient goes through unchanged."""

    @staticmethod
    def forward(ctx, value, reference):
        return reference.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def replaced(value, reference):
    """See _Replace.  Paddle ignores what a hook returns on a PyLayer's own output: hence the 1."""
    return _Replace.apply(value, reference) * 1.0


def flows_through(value):
    """Whether a gradient will come back through a tensor."""
    return value.requires_grad and torch.is_grad_enabled()


def modules(model):
    """(name, module) of a model and all that is in it."""
    return model.named_modules()


def hook_behind(module, after):
    """Call `after` (module, inputs, outputs) behind each call of a module."""
    return module.register_forward_hook(after)


PROBES = Probes(sys.modules[__name__])
with_values, observe, probing = PROBES.with_values, PROBES.observe, PROBES.probing
probed_modules, of_framework = PROBES.probed_modules, PROBES.of_framework
is_container, fix_recurrent_dropout = PROBES.is_container, PROBES.fix_recurrent_dropout
