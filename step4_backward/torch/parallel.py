"""Step 4, torch side: the first steps of a training, by one process or by several that share it.

    python -m step4_backward.torch.parallel REQUEST.json
    LAUNCHER -m step4_backward.torch.parallel REQUEST.json (common/pair/worker_process.py)

Under torchrun or paddle.distributed.launch each process has a replica of the model and a part of
every batch; the gradients' mean over the processes is that of the whole batch.
step4_backward/parallel.py is the training, on both sides.
"""

import sys

if __name__ == "__main__":  # --help needs no framework
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from contextlib import contextmanager, nullcontext
from functools import partial

from torch import distributed as dist  # twin: what averages
from torch.nn.parallel import DistributedDataParallel  # twin: what averages

from twincheck.common.pair.case_hooks import data_cases
from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.group import join_group
from twincheck.common.sides.worker import Script, main
from twincheck.step4_backward.parallel import parallel, stem

GROUP = join_group(side)


def replicate(model):
    """The model as one of the processes' replicas, which start from the first one's weights."""
    return DistributedDataParallel(model) if GROUP.count > 1 else model  # twin: its name


@contextmanager
def averaged(replica):
    """Around a forward and a backward pass: afterwards every process has the mean gradient.

    Paddle's own hooks miss what a PyLayer's backward gives parameters, as reversible layers do; its
    documentation then asks for no_sync and fused_allreduce_gradients.
    """
    alone = nullcontext()  # twin: torch does it
    with alone:
        yield
    if GROUP.count > 1:
        dist.barrier()  # twin: torch does it


SCRIPT = Script(
    side, stem(GROUP), partial(parallel, replicate, averaged), cases=data_cases, group=GROUP
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
