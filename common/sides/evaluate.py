"""A model's scores on samples, in batches by the framework's own loader."""

from twincheck.common.pair.data import count
from twincheck.common.pair.metrics import Evaluation
from twincheck.common.system.tree import named_leaves


def evaluate(run, model, samples, batch_size, group=None):
    """Name -> score of the model on the samples, and its outputs as arrays (N, ...).

    group   the processes that share the batches; None: this one has all

    Nested outputs have their keys joined by '/'; a bare tensor is called what its labels make of it
    (common/pair/metrics.py).  What has not the batch axis is left out.  Where scores are sums over
    batches, only the first one's outputs come.
    """
    run.session.probing, run.session.watching = False, True
    found = Evaluation(run.pair, run.case.config)
    Samples, batches = run.side.Samples, run.side.batches
    loaded = batches(Samples(samples), range(count(samples)), batch_size)
    for i, batch in enumerate(loaded):
        run.session.begin(i, prefix=f"{run.prefix}test/{i:03d}/")
        tensors = {key: run.tensor(values) for key, values in batch.items()}
        with run.no_gradients():
            outputs = group.call(run, model, tensors) if group else run.call(model, tensors)
        named = named_leaves(outputs, run.side.is_tensor)
        whole = {
            k: run.side.array(v) for k, v in named.items() if list(v.shape[:1]) == [count(batch)]
        }
        found.add(whole, batch)
    run.session.begin(prefix=run.prefix)
    return found.scores(samples), found.outputs(samples)
