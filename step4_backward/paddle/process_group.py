"""Data parallelism by the framework's own means: paddle_parallel.py, paddle_parallel.py are twins.

Under paddlerun or paddle.distributed.launch each process has a replica of the model and a part of
every batch; the gradients' mean over the processes is that of the whole batch.
"""

from contextlib import contextmanager, nullcontext

import paddle  # twin: what averages
from paddle.distributed.fleet.utils import hybrid_parallel_util as hybrid  # twin: what averages


def replicate(model, count):
    """The model as one of `count` replicas, which start from the first one's weights."""
    return paddle.DataParallel(model) if count > 1 else model  # twin: its name


@contextmanager
def averaged(replica, count):
    """Around a forward and a backward pass: afterwards every process has the mean gradient.

    Paddle's own hooks miss what a PyLayer's backward gives parameters, as reversible layers do; its
    documentation then asks for no_sync and fused_allreduce_gradients.
    """
    alone = replica.no_sync() if count > 1 else nullcontext()  # twin: torch does it
    with alone:
        yield
    if count > 1:
        hybrid.fused_allreduce_gradients(list(replica.parameters()), None)  # twin: torch does it
