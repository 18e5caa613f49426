"""The way into the processes that share a run: torch_group.py and paddle_group.py are twins.

torchrun or paddle.distributed.launch starts them; what they then do is in group.py.
"""

import os
import sys

import paddle
import paddle.distributed as dist

from common.sides.group import Group
from common.sides.paddle_side import *  # noqa: F403  (handed on)


def join_group():
    """The group that this process is in; it is alone where no launcher started it."""
    count = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))  # twin: the launcher's name
    if count > 1:
        # The launcher has said which device is this process's.  # twin: how
        # On CPU that is gloo, on a GPU nccl.  # twin: how
        dist.init_parallel_env()  # twin: how
    rank = dist.get_rank() if count > 1 else 0
    return Group(rank, count, sys.modules[__name__], dist)


def wants_gradient(value):
    """Whether gradients flow through a tensor."""
    return not value.stop_gradient


def gradient_of(value):
    """The gradient of a parameter as a tensor; zeros where nothing has reached it."""
    return paddle.zeros_like(value) if value.grad is None else value.grad.detach()


def joined(parts):
    """Tensors one behind the other."""
    return paddle.concat(parts)


def cast(value, other):
    """A tensor with another one's dtype."""
    return value.astype(other.dtype)


def sendable(value):
    """What every way of sending takes, of the same values."""
    if value.dtype in (paddle.bool, paddle.bfloat16):
        return value.astype(paddle.uint8 if value.dtype == paddle.bool else paddle.float32)
    return value
