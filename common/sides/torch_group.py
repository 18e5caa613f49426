"""The way into the processes that share a run: torch_group.py and paddle_group.py are twins.

torchrun or paddle.distributed.launch starts them; what they then do is in group.py.
"""

import os
import sys

import torch
import torch.distributed as dist

from common.sides.group import Group
from common.sides.torch_side import *  # noqa: F403  (handed on)


def join_group():
    """The group that this process is in; it is alone where no launcher started it."""
    count = int(os.environ.get("WORLD_SIZE", "1"))  # twin: the launcher's name
    if count > 1:
        on_gpu = torch.cuda.is_available()  # twin: how
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) if on_gpu else None  # twin: how
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")  # twin: how
    rank = dist.get_rank() if count > 1 else 0
    return Group(rank, count, sys.modules[__name__], dist)


def wants_gradient(value):
    """Whether gradients flow through a tensor."""
    return value.requires_grad


def gradient_of(value):
    """The gradient of a parameter as a tensor; zeros where nothing has reached it."""
    return torch.zeros_like(value) if value.grad is None else value.grad.detach()


def joined(parts):
    """Tensors one behind the other."""
    return torch.cat(parts)


def cast(value, other):
    """A tensor with another one's dtype."""
    return value.to(other.dtype)


def sendable(value):
    """What every way of sending takes, of the same values."""
    if value.dtype in (torch.bool, torch.bfloat16):
        return value.to(torch.uint8 if value.dtype == torch.bool else torch.float32)
    return value
