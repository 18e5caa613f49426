"""Step 5, paddle side: forecast what comes behind a file's end, from a checkpoint.

    python -m step5_train.paddle.predict REQUEST.json

check_predict.py writes the samples: the last one whose truth the file holds, and the one behind it.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from common.system.start import begin_side

    begin_side("paddle", __doc__)

import numpy as np

from common.pair.case_hooks import data_entries
from common.pair.pairs import Case
from common.sides import paddle_side as side
from common.sides.twin import main
from common.system.errors import UserError
from step5_train.forecast import PART, folder_of


def predict(run):
    """Log both samples' forecasts, in the units of the file, and what the model read."""
    samples = run.samples(PART)
    model = run.build()
    run.session.probing = False
    tensors = {name: run.tensor(np.asarray(values)) for name, values in samples.items()}
    with run.no_gradients():
        outputs = run.call(model, tensors)
    if not isinstance(outputs, dict) or "predictions" not in outputs:
        raise UserError(f"--model {run.pair.name}: its outputs have no predictions")
    run.log("predictions", outputs["predictions"])
    run.log("read", np.asarray(samples["x_enc"]))


def cases(pair, request):
    """The preset alone, with the columns of the file."""
    config = pair.config(request.preset) | data_entries(folder_of(request.data, pair.name))
    return [Case("", config)]


if __name__ == "__main__":
    sys.exit(main(side, "predict", predict, cases=cases))
