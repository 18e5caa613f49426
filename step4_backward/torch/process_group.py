"""Data parallelism by the framework's own means: torch_parallel.py, paddle_parallel.py are twins.

Under torchrun or paddle.distributed.launch each process has a replica of the model and a part of
every batch; the gradients' mean over the processes is that of the whole batch.
"""

from contextlib import contextmanager, nullcontext

from torch import distributed as dist  # twin: what averages
from torch.nn.parallel import DistributedDataParallel  # twin: what averages


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
