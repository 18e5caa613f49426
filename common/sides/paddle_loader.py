"""The framework's own DataLoader: torch_loader.py and paddle_loader.py are twins."""

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler

from common.pair.data import count, pad_batch
from common.pair.metrics import Evaluation
from common.sides import paddle_side as side
from common.system.tree import named_leaves

_WIDEST = {"i": np.int64, "u": np.int64, "f": np.float64}


class Samples(Dataset):
    """Rows of arrays that share their first axis: sample i is {name: array[i]}."""

    def __init__(self, arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return count(self.arrays)

    def __getitem__(self, index):
        # Arrays, not NumPy's scalars, whose dtype the frameworks' loaders do not keep.
        return {name: _wide(values[index]) for name, values in self.arrays.items()}


class Documents(Dataset):
    """Texts of different lengths, each an array of ids."""

    def __init__(self, documents):
        super().__init__()
        self.documents = documents

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        return self.documents[index]


class Order(Sampler):
    """The samples in a given order, which comes from the tape."""

    def __init__(self, order):
        super().__init__()
        self.order = [int(index) for index in order]

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


def batches(dataset, order, batch_size, drop_last=False, max_length=None):
    """The dataset in batches of arrays; texts are cut or padded to `max_length`."""
    sampler = BatchSampler(sampler=Order(order), batch_size=batch_size, drop_last=drop_last)
    collate = None if max_length is None else lambda texts: _padded(texts, max_length)
    for batch in DataLoader(dataset, batch_sampler=sampler, collate_fn=collate):
        yield {name: _array(values) for name, values in batch.items()}


def evaluate(run, model, samples, batch_size, group=None):
    """Name -> score of the model on the samples, and its outputs as arrays (N, ...).

    group   the processes that share the batches; None: this one has all

    Nested outputs have their keys joined by '/'; a bare tensor is called what its labels make of it
    (common/pair/metrics.py).  What has not the batch axis is left out.  Where scores are sums over
    batches, only the first one's outputs come.
    """
    run.session.probing = False
    found = Evaluation(run.pair, run.case.config)
    loaded = batches(Samples(samples), range(count(samples)), batch_size)
    for i, batch in enumerate(loaded):
        run.session.begin(i, prefix=f"{run.prefix}test/{i:03d}/")
        tensors = {key: run.tensor(values) for key, values in batch.items()}
        with run.no_gradients():
            outputs = group.call(run, model, tensors) if group else run.call(model, tensors)
        named = named_leaves(outputs, side.is_tensor)
        whole = {k: side.array(v) for k, v in named.items() if list(v.shape[:1]) == [count(batch)]}
        found.add(whole, batch)
    run.session.begin(prefix=run.prefix)
    return found.scores(samples), found.outputs(samples)


def _padded(texts, max_length):
    input_ids, attention_mask = pad_batch(texts, max_length)
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def _wide(values):
    """Integers as int64, floats as float64: large data are kept in fewer bytes.

    What a loader makes of float32 in a float64 run is its framework's own affair.  The tensors
    that are made of a batch have the run's precision.
    """
    values = np.asarray(values)
    return values.astype(_WIDEST.get(values.dtype.kind, values.dtype))


def _array(values):
    return side.array(values) if paddle.is_tensor(values) else np.asarray(values)
