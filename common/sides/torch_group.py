"""The processes that share a run: torch_group.py and paddle_group.py are twins.

torchrun or paddle.distributed.launch starts them; each computes its rows of every batch.  The
outputs are then put together in each, and the loss is that of the whole batch, whatever it is a
mean of; its gradient flows into a process's own rows, and the sum over the processes is what one
process has.  No average of losses, which are weighted otherwise in every batch, comes into it.
"""

import hashlib
import math
import os
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from common.pair.shares import Axes, ListingTape, PartOfTape, Share, rows_of
from common.sides.session import Session, using
from common.sides.torch_tensors import array, is_float, is_tensor, tensor
from common.system.errors import LostProcess, UserError
from common.system.tree import join_path, tree_map

_BUCKET = 1 << 23  # values that are summed at a time, at most, beside those of one parameter


def join_group():
    """The group that this process is in; it is alone where no launcher started it."""
    count = int(os.environ.get("WORLD_SIZE", "1"))  # twin: the launcher's name
    if count > 1:
        on_gpu = torch.cuda.is_available()  # twin: how
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) if on_gpu else None  # twin: how
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")  # twin: how
    return Group(dist.get_rank() if count > 1 else 0, count)


class Group:
    """The processes that share a run, of which this one is number `rank` of `count`."""

    def __init__(self, rank, count):
        self.rank, self.count = rank, count
        self._outputs = {}  # path -> the samples' axis of the model's outputs there

    def demand_same(self, text):
        """Raise UserError where the processes do not all have the same text."""
        digest = hashlib.sha256(text.encode()).digest()
        if float(self.spread(tensor(np.frombuffer(digest, np.int32).astype(np.int64)))):
            raise UserError(
                "the processes were not asked for the same training: give every machine the same "
                "options, the same data and weights, and the same versions of model and workbench"
            )

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
                taken = {name: tensor(values[:rows]) for name, values in samples.items()}
                shapes = {}
                tree_map(run.call(model, taken), partial(_note_shape, shapes), is_tensor)
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
        return tree_map(outputs, partial(self._whole, share), is_tensor)

    def _whole(self, share, path, value):
        """All processes' rows of an output; raises UserError for one that has none."""
        own = share.sizes[share.rank]
        found = self._outputs.get(path, Axes()).find(tuple(value.shape), own)
        if found is not None:
            return self.joined(value, found[0], [size * found[1] for size in share.sizes])
        if is_float(value) and value.requires_grad:
            raise UserError(
                f"the output {join_path(path) or 'of the model'} has no axis of samples: what a "
                "part of a batch gives cannot be put together as the whole batch's; train with one "
                "process"
            )
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
        sent = _sendable(own.detach())
        rest = torch.zeros([max(sizes) - sizes[self.rank], *sent.shape[1:]], dtype=sent.dtype)
        sent = torch.cat([sent, rest.to(sent.dtype)]).contiguous()
        parts = [torch.zeros_like(sent) for _ in sizes]
        with _lost():
            dist.all_gather(parts, sent)
        parts = [part[:size].to(own.dtype) for part, size in zip(parts, sizes, strict=True)]
        parts[self.rank] = own
        return torch.cat(parts).moveaxis(0, axis)

    def add_gradients(self, run, parameters):
        """Give every parameter the gradient of the whole batch: the sum of all processes'.

        What none of them reached has none.  Where each has computed the whole batch, their mean.
        """
        if self.count == 1:
            return
        copies = self.count // run.session.tape.share.count
        values = [value for _, value in parameters]
        reached = np.array([value.grad is not None for value in values], np.int64)
        reached = array(self.sum(tensor(reached)))
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
        own = [torch.zeros_like(v) if v.grad is None else v.grad.detach() for v in values]
        flat = self.sum(torch.cat([gradient.reshape([-1]) for gradient in own])) / copies
        first = 0
        for value in values:
            size = math.prod(value.shape)
            value.grad = flat[first : first + size].reshape(list(value.shape))
            first += size

    def sum(self, value):
        """The sum of a tensor over the processes."""
        return self._reduced(value, dist.ReduceOp.SUM)

    def mean(self, value):
        """The mean of a tensor over the processes."""
        return self.sum(value) / self.count

    def spread(self, value):
        """How far a tensor's values are apart over the processes, at most."""
        largest = self._reduced(value, dist.ReduceOp.MAX)
        return (largest - self._reduced(value, dist.ReduceOp.MIN)).max()

    def from_first(self, data):
        """The bytes that the first process has, whatever this one has."""
        if self.count == 1:
            return data
        size = int(array(self._first(tensor(np.array([len(data)], np.int64))))[0])
        values = np.frombuffer(data, np.uint8) if self.rank == 0 else np.zeros(size, np.uint8)
        return array(self._first(tensor(values))).tobytes() if size else b""

    def _first(self, value):
        with _lost():
            dist.broadcast(value, src=0)
        return value

    def _reduced(self, value, operation):
        value = value.detach().clone()
        if self.count > 1:
            with _lost():
                dist.all_reduce(value, op=operation)
        return value


@contextmanager
def _lost():
    """What fails here, fails because another process is gone: that one's reason is the reason."""
    try:
        yield
    except Exception as error:
        raise LostProcess(f"another process of the group is gone: {error}") from error


def _note_shape(shapes, path, value):
    shapes[path] = tuple(value.shape)
    return value


def _sendable(value):
    """What every way of sending takes, of the same values."""
    if value.dtype in (torch.bool, torch.bfloat16):
        return value.to(torch.uint8 if value.dtype == torch.bool else torch.float32)
    return value
