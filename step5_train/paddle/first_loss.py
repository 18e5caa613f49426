"""Step 5, paddle side: the loss of the first batches from the shared start, token by token.

    python -m step5_train.paddle.first_loss REQUEST.json

For losses that somebody else's trainer logged: step5_train/first_loss.py says what each could be.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from common.system.start import begin_side

    begin_side("paddle", __doc__)

from common.pair.case_hooks import data_preset
from common.pair.pairs import Case
from common.sides import paddle_side as side
from common.sides.twin import main
from common.system.npz import read_npz
from common.system.tree import join_path, tree_leaves
from step5_train.first_loss import BATCH, of_batch


def first_loss(run):
    """Log the pair's own loss of each batch that is in the run's folder, and each token's."""
    model = run.build(training=False)
    run.session.probing = False
    run.session.record, record = None, run.session.record
    found = {}
    for path in sorted(run.folder.glob(f"{BATCH}_*.npz")):
        batch = read_npz(path)
        run.session.begin(prefix=f"{run.prefix}{path.stem}/")
        tensors = {key: run.tensor(values) for key, values in batch.items()}
        with run.no_gradients():
            outputs = run.call(model, tensors)
            if hasattr(run.module, "loss"):
                found[f"{path.stem}/loss"] = side.array(run.loss(outputs, tensors))
        leaves = tree_leaves(outputs, side.is_tensor)
        named = {join_path(where) or "output": value for where, value in leaves}
        logits = named.get("logits", named.get("output"))
        if logits is not None:
            for key, values in of_batch(side.array(logits), batch).items():
                found[f"{path.stem}/{key}"] = values
    run.session.begin(prefix=run.prefix)
    run.session.record = record
    for key, values in found.items():
        run.log(key, values)


def cases(pair, request):
    """The preset that step 5 trains, once."""
    inputs = (pair.published or {}).get("inputs", {})
    config = pair.config(data_preset(pair, request.preset))
    return [Case("", config, inputs, weights=request.data_weights)]


def precisions(request):
    """One of them, as the check asks: float64, which also makes the weights, or float32."""
    return ("float32",) if request.only_float32 else ("float64",)


if __name__ == "__main__":
    sys.exit(main(side, "first_loss", first_loss, precisions, cases=cases))
