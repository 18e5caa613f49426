"""The processes that share a run: torchrun or paddle.distributed.launch starts them."""


def join_group(side):
    """The group that this process is in; it is alone where no launcher started it."""
    return Group(*side.join_processes(), side.lib.distributed)


class Group:
    """The processes that share a run, of which this one is number `rank` of `count`.

    dist   the framework's module for processes
    """

    def __init__(self, rank, count, dist):
        self.rank, self.count, self._dist = rank, count, dist

    def mean(self, value):
        """The mean of a tensor over the processes."""
        return self._reduced(value, self._dist.ReduceOp.SUM) / self.count

    def spread(self, value):
        """Return how far a tensor's values are apart over the processes, at most."""
        largest = self._reduced(value, self._dist.ReduceOp.MAX)
        return (largest - self._reduced(value, self._dist.ReduceOp.MIN)).max()

    def _reduced(self, value, operation):
        value = value.detach().clone()
        if self.count > 1:
            self._dist.all_reduce(value, op=operation)
        return value
