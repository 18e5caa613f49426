"""Data parallelism by the framework's own means: torch_parallel.py, paddle_parallel.py are twins.

Under torchrun or paddle.distributed.launch each process has a replica of the model and a part of
every batch; the gradients' mean over the processes is that of the whole batch.
"""

import os
from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel  # twin: what averages


def join_group():
    """This process's number and how many there are; 0 and 1 where no launcher started it."""
    count = int(os.environ.get("WORLD_SIZE", "1"))  # twin: the launcher's name
    if count > 1:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")  # twin: how
    return dist.get_rank() if count > 1 else 0, count


def replicate(model, count):
    """The model as one of `count` replicas, which start from the first one's weights."""
    return DistributedDataParallel(model) if count > 1 else model  # twin: its name


@contextmanager
def averaged(replica, count):
    """Around a forward and a backward pass: afterwards every process has the mean gradient.

    Paddle's own hooks miss what a PyLayer's backward gives parameters, as reversible layers do; its
    documentation then asks for no_sync and fused_allreduce_gradients.
    """
    alone = nullcontext()  # twin: torch does it
    with alone:
        yield
    if count > 1:
        dist.barrier()  # twin: torch does it


def mean(value, count):
    """The mean of a tensor over the processes."""
    return _reduced(value, dist.ReduceOp.SUM, count) / count


def spread(value, count):
    """How far a tensor's values are apart over the processes, at most."""
    largest = _reduced(value, dist.ReduceOp.MAX, count)
    return (largest - _reduced(value, dist.ReduceOp.MIN, count)).max()


def _reduced(value, operation, count):
    value = value.detach().clone()
    if count > 1:
        dist.all_reduce(value, op=operation)
    return value
