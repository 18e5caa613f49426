"""What a framework's own DataLoader reads, and the batches that it makes of that: both sides'."""

import numpy as np

from twincheck.common.pair.data import count, pad_batch
from twincheck.common.pair.metrics import Evaluation
from twincheck.common.sides.lines_run import heard
from twincheck.common.system.tree import named_leaves

_WIDEST = {"i": np.int64, "u": np.int64, "f": np.float64}


class Samples:
    """Rows of arrays that share their first axis: sample i is {name: array[i]}."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return count(self.arrays)

    def __getitem__(self, index):
        # Arrays, not NumPy's scalars, whose dtype the frameworks' loaders do not keep.
        return {name: _wide(values[index]) for name, values in self.arrays.items()}


def batches(side, dataset, order, batch_size, drop_last=False, max_length=None):
    """The dataset in batches of arrays.

    dataset     Samples, or with `max_length` texts, each an array of ids, which are cut or padded
    order       of the samples, which comes from the tape
    """

    class Order(side.DATA.Sampler):
        def __iter__(self):
            return map(int, order)

        def __len__(self):
            return len(order)

    sampler = side.DATA.BatchSampler(sampler=Order(), batch_size=batch_size, drop_last=drop_last)

    def padded(texts):
        return dict(zip(("input_ids", "attention_mask"), pad_batch(texts, max_length), strict=True))

    collate = None if max_length is None else padded
    # Paddle's reads ahead in a thread, which takes more time than reading arrays does.
    plain = {"use_buffer_reader": False} if side.NAME == "paddle" else {}
    for batch in side.DATA.DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, **plain):
        yield {
            name: side.array(values) if side.is_tensor(values) else np.asarray(values)
            for name, values in batch.items()
        }


def _wide(values):
    """Integers as int64, floats as float64: large data are kept in fewer bytes.

    What a loader makes of float32 in a float64 run is its framework's own affair.  The tensors
    that are made of a batch have the run's precision.
    """
    values = np.asarray(values)
    return values.astype(_WIDEST.get(values.dtype.kind, values.dtype))


# ---- scores --------------------------------------------------------------------------------------


def evaluate(run, model, samples, batch_size):
    """Name -> score of the model on the samples, and its outputs as arrays (N, ...).

    Nested outputs have their keys joined by '/'; a bare tensor is called what its labels make of it
    (common/pair/metrics.py).  What has not the batch axis is left out.  Where scores are sums over
    batches, only the first one's outputs come.
    """
    run.session.probing, run.session.watching = False, True
    found = Evaluation(run.pair, run.case.config)
    loaded = batches(run.side, Samples(samples), range(count(samples)), batch_size)
    for i, batch in enumerate(loaded):
        run.session.begin(i, prefix=f"{run.prefix}test/{i:03d}/")
        tensors = {key: run.tensor(values) for key, values in batch.items()}
        with run.no_gradients():
            outputs = run.call(model, tensors)
        named = named_leaves(outputs, run.side.is_tensor)
        whole = {
            k: run.side.array(v) for k, v in named.items() if list(v.shape[:1]) == [count(batch)]
        }
        found.add(whole, batch)
    run.session.begin(prefix=run.prefix)
    with heard():
        scores = found.scores(samples)
    return scores, found.outputs(samples)
