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

from common.pair.case_hooks import data_case
from common.sides import paddle_side as side
from common.sides.twin import asked_precision, main
from common.system.npz import read_npz
from common.system.tree import named_leaves
from step5_train.first_loss import BATCH, of_batch


def first_loss(run):
    """Log the pair's own loss of each batch that is in the run's folder, and each token's."""
    model = run.build(training=False)
    run.session.probing = False
    found = {}
    with run.session.unrecorded():
        for path in sorted(run.folder.glob(f"{BATCH}_*.npz")):
            found |= of_file(run, model, path)
    run.session.begin(prefix=run.prefix)
    for key, values in found.items():
        run.log(key, values)


def of_file(run, model, path):
    """Key -> loss of the batch that a file holds, and what is told of each token."""
    found = {}
    batch = read_npz(path)
    run.session.begin(prefix=f"{run.prefix}{path.stem}/")
    tensors = {key: run.tensor(values) for key, values in batch.items()}
    with run.no_gradients():
        outputs = run.call(model, tensors)
        if hasattr(run.module, "loss"):
            found[f"{path.stem}/loss"] = side.array(run.loss(outputs, tensors))
    named = named_leaves(outputs, side.is_tensor)
    logits = named.get("logits", named.get("output"))
    if logits is not None:
        for key, values in of_batch(side.array(logits), batch).items():
            found[f"{path.stem}/{key}"] = values
    return found


def cases(pair, request):
    """The preset that step 5 trains, once."""
    return [data_case(pair, request)]


if __name__ == "__main__":
    sys.exit(main(side, "first_loss", first_loss, asked_precision, cases=cases))
