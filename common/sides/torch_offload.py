"""A framework's ways for offload.py: torch_offload.py and paddle_offload.py are twins."""

import torch
from torch import nn
from torch.autograd import backward  # noqa: F401  (handed on)

from common.sides.offload import watched

enable_grad, zeros_like = torch.enable_grad, torch.zeros_like
follows_gradients = torch.is_grad_enabled
nn.Module.__getattr__ = watched(nn.Module.__getattr__)


def entries(model):
    """(key, tensor itself) of a model's state dict."""
    return model.state_dict(keep_vars=True).items()  # twin: Paddle keeps them


def wants_gradient(value):
    """Whether a gradient is wanted for a tensor."""
    return value.requires_grad


def freeze(value):
    """Want none for it any more."""
    value.requires_grad = False  # twin: the opposite flag


def forget_gradient(value):
    """Let the gradient of a parameter go."""
    value.grad = None  # twin: an attribute here, a call there


def behind_forward(model, hook):
    """Call a hook behind each forward of a model."""
    model.register_forward_hook(hook)


def let_go(value):
    """Leave a parameter its shape and dtype, but no memory."""
    nothing = torch.full([], float("nan"), dtype=value.dtype)  # twin: what has no memory
    value.data = nothing.expand(value.shape)  # twin: what has no memory


def fill(value, values):
    """Give a parameter the memory of another tensor."""
    value.data = values  # twin: how


class Recomputed(torch.autograd.Function):
    """See offload.py's _Recomputation; the tensors are those of its inputs that want a gradient."""

    @staticmethod
    def forward(ctx, call, *tensors):
        ctx.call = call
        return call.first()

    @staticmethod
    def backward(ctx, *gradients):
        return None, *ctx.call.again(gradients)  # twin: of tensors alone
