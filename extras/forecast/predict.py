"""Step 5, both sides: forecast what comes behind a file's end, from a checkpoint.

The check writes the samples: the last one whose truth the file holds, and the one behind it.
"""

import numpy as np

from twincheck.common.pair.case_hooks import data_entries
from twincheck.common.pair.pairs import Case
from twincheck.common.system.errors import UserError
from twincheck.extras.forecast import Kind
from twincheck.extras.forecast.forecast import PART, folder_of


def predict(run):
    """Log both samples' forecasts, in the units of the file, and what the model read."""
    samples = run.samples(PART)
    model = run.build()
    run.session.probing = False
    tensors = {name: run.tensor(np.asarray(values)) for name, values in samples.items()}
    with run.no_gradients():
        outputs = run.call(model, tensors)
    if not isinstance(outputs, dict) or "predictions" not in outputs:
        raise UserError(Kind.PREDICTIONS_MISSING(model=run.pair.name))
    run.log("predictions", outputs["predictions"])
    run.log("read", np.asarray(samples["x_enc"]))


def cases(pair, request):
    """The preset alone, with the columns of the file."""
    config = pair.config(request.preset) | data_entries(folder_of(request.data, pair.name))
    return [Case("", config)]


SCRIPT = {"stem": "predict", "function": predict, "cases": cases}
