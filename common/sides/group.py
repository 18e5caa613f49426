"""The processes that share a run, and the way in.

torchrun or paddle.distributed.launch starts them; each computes its rows of every batch.  The
outputs are then put together in each, and the loss is that of the whole batch, whatever it is a
mean of; its gradient flows into a process's own rows, and the sum over the processes is what one
process has.  No average of losses, which are weighted otherwise in every batch, comes into it.
"""

import hashlib
import math
from contextlib import contextmanager
from functools import partial

import numpy as np

from twincheck.common.pair.shares import Axes, ListingTape, PartOfTape, Share, rows_of
from twincheck.common.sides.session import Session, using
from twincheck.common.system.errors import LostProcess, UserError
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import join_path, tree_leaves, tree_map

_BUCKET = 1 << 23  # values that are summed at a time, at most, beside those of one parameter


def join_group(side):
    """The group that this process is in; it is alone where no launcher started it."""
    rank, count = side.join_processes()
    return Group(rank, count, side, side.lib.distributed)


class Group:
    """The processes that share a run, of which this one is number `rank` of `count`.

    dist   the framework's module for processes
    """

    def __init__(self, rank, count, side, dist):
        self.rank, self.count = rank, count
        self._side, self._dist = side, dist
        self._outputs = {}  # path -> the samples' axis of the model's outputs there

    def demand_same(self, text):
        """Raise UserError where the processes do not all have the same text."""
        digest = hashlib.sha256(text.encode()).digest()
        if float(self.spread(self._side.tensor(np.frombuffer(digest, np.int32).astype(np.int64)))):
            raise UserError(Kind.GROUP_ASKED_OTHERWISE())

    def learn(self, run, model, samples):
        """Learn which axis of draws and of outputs is the samples'; the tape is this process's now.

        The model runs twice, on a few samples; the caller loads what such a run changes in it.
        """
        if self.count == 1:
            return
        drawn, made = [], []
        for rows in (Axes.FEW, Axes.MORE):
            with using(Session(run.session.tape.seed)) as session, run.no_gradients():
                session.tape, session.rename = ListingTape(session.tape.seed), run.session.rename
                taken = {name: self._side.tensor(values[:rows]) for name, values in samples.items()}
                leaves = tree_leaves(run.call(model, taken), self._side.is_tensor)
                shapes = {path: tuple(value.shape) for path, value in leaves}
            drawn.append(session.tape.shapes)
            made.append(shapes)
        few, more = made
        self._outputs = {path: Axes([few[path]], [more[path]]) for path in few if path in more}
        share = Share(0, 1, 1)
        run.session.tape = PartOfTape(run.session.tape.seed, share, Axes(*drawn))

    def call(self, run, model, tensors):
        """The model's outputs of a whole batch, of which each process computes its rows.

        A batch of fewer samples than there are processes is computed by each.  Gradients flow into
        this process's own rows.
        """
        rows = rows_of(tensors)
        if self.count == 1:
            return run.call(model, tensors)
        share = Share(self.rank, self.count, rows)
        run.session.tape.share = share if rows >= self.count else Share(0, 1, rows)
        if rows < self.count:
            return run.call(model, tensors)
        own = {name: value[share.part()] for name, value in tensors.items()}
        outputs = run.call(model, own)
        return tree_map(outputs, partial(self._whole, share), self._side.is_tensor)

    def _whole(self, share, path, value):
        """All processes' rows of an output; raises UserError for one that has none."""
        own = share.sizes[share.rank]
        found = self._outputs.get(path, Axes()).find(tuple(value.shape), own)
        if found is not None:
            return self.joined(value, found[0], [size * found[1] for size in share.sizes])
        if self._side.is_float(value) and self._side.wants_gradient(value):
            output = join_path(path) or Kind.BARE_OUTPUT()
            raise UserError(Kind.SAMPLES_AXIS_MISSING(output=output))
        return value

    @contextmanager
    def together(self, run):
        """Inside, code sees the whole batch, in every process: what it draws is drawn for that."""
        tape = run.session.tape
        if self.count == 1:
            yield
            return
        share, tape.share = tape.share, Share(0, 1, tape.share.rows)
        try:
            yield
        finally:
            tape.share = share

    def joined(self, value, axis, sizes):
        """The processes' parts along an axis, as one tensor; only this one's own has a gradient."""
        own = value.moveaxis(axis, 0)
        # What every way of sending takes, of the same values.
        lib, sent = self._side.lib, own.detach()
        as_sent = {lib.bool: lib.uint8, lib.bfloat16: lib.float32}
        sent = self._side.cast(sent, as_sent[sent.dtype]) if sent.dtype in as_sent else sent
        longest = max(sizes)
        if longest > len(sent):  # no way of sending takes parts of several sizes
            rest = sent[:1].expand([longest - len(sent), *sent.shape[1:]])
            sent = lib.concat([sent, rest])
        sent = sent.contiguous()
        parts = [sent.clone() for _ in sizes]
        with _lost():
            self._dist.all_gather(parts, sent)
        parts = [self._side.cast(p[:size], own.dtype) for p, size in zip(parts, sizes, strict=True)]
        parts[self.rank] = own
        return lib.concat(parts).moveaxis(0, axis)

    def add_gradients(self, run, parameters):
        """Give every parameter the gradient of the whole batch: the sum of all processes'.

        What none of them reached has none.  Where each has computed the whole batch, their mean.
        """
        if self.count == 1:
            return
        copies = self.count // run.session.tape.share.count
        values = [value for _, value in parameters]
        reached = np.array([value.grad is not None for value in values], np.int64)
        reached = self._side.array(self.sum(self._side.tensor(reached)))
        bucket, held = [], 0
        for value, some in zip(values, reached, strict=True):
            size = math.prod(value.shape)
            if held + size > _BUCKET and bucket:
                self._add(bucket, copies)
                bucket, held = [], 0
            if some:
                bucket.append(value)
                held += size
        if bucket:
            self._add(bucket, copies)

    def _add(self, values, copies):
        concat, zeros = self._side.lib.concat, self._side.lib.zeros_like
        own = [zeros(value) if value.grad is None else value.grad.detach() for value in values]
        own = [gradient.reshape([-1]) for gradient in own]
        flat = self.sum(concat(own)) / copies
        first = 0
        for value in values:
            size = math.prod(value.shape)
            value.grad = flat[first : first + size].reshape(list(value.shape))
            first += size

    def sum(self, value):
        """The sum of a tensor over the processes."""
        return self._reduced(value, self._dist.ReduceOp.SUM)

    def mean(self, value):
        """The mean of a tensor over the processes."""
        return self.sum(value) / self.count

    def spread(self, value):
        """Return how far a tensor's values are apart over the processes, at most."""
        largest = self._reduced(value, self._dist.ReduceOp.MAX)
        return (largest - self._reduced(value, self._dist.ReduceOp.MIN)).max()

    def from_first(self, data):
        """The bytes that the first process has, whatever this one has."""
        if self.count == 1:
            return data
        array, tensor = self._side.array, self._side.tensor
        size = int(array(self._first(tensor(np.array([len(data)], np.int64))))[0])
        values = np.frombuffer(data, np.uint8) if self.rank == 0 else np.zeros(size, np.uint8)
        return array(self._first(tensor(values))).tobytes() if size else b""

    def _first(self, value):
        with _lost():
            self._dist.broadcast(value, src=0)
        return value

    def _reduced(self, value, operation):
        value = value.detach().clone()
        if self.count > 1:
            with _lost():
                self._dist.all_reduce(value, op=operation)
        return value


@contextmanager
def _lost():
    """Raise LostProcess for what fails here: another process is gone, and its reason counts."""
    try:
        yield
    except Exception as error:
        raise LostProcess(Kind.GROUP_PROCESS_GONE(error=str(error))) from error
