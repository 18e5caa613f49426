"""Step 2, both sides: what the model chooses for batches of examples that the check has prepared.

In float32 each side goes its own way; in float64 (which also makes the shared weights) it says what
the scores are without rounding.  extras/agreement/choosing.py says what is in the files.
"""

import inspect

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.npz import read_npz
from twincheck.common.system.tree import named_leaves
from twincheck.extras.agreement import Kind
from twincheck.extras.agreement.choosing import ANSWERS, BATCHES, answer
from twincheck.extras.shared.one_case import asked_precision, data_case


def agree(run):
    """Answer every batch that is in the run's folder."""
    model = run.build()
    run.session.probing = False
    batches = sorted((run.folder / BATCHES).glob("*.npz"))
    (run.folder / ANSWERS).mkdir(exist_ok=True)
    with run.session.unrecorded():
        for number, path in enumerate(batches):
            answer_batch(run, model, number, path)
    run.session.begin(prefix=run.prefix)
    run.log("batches", np.int64(len(batches)))


def answer_batch(run, model, number, path):
    """Write what the model chooses for the examples of one file."""
    batch = read_npz(path)
    given = {key[3:]: values for key, values in batch.items() if key.startswith("in/")}
    demand_inputs(run, model, given)
    run.session.begin(number, prefix=f"{run.prefix}{path.stem}/")
    tensors = {key: run.tensor(values) for key, values in given.items()}
    fed = arrays_sha256({key: run.side.array(value) for key, value in tensors.items()})
    with run.no_gradients():
        outputs = run.call(model, tensors)
    leaves = named_leaves(outputs, run.side.is_tensor)
    outputs = {key: run.side.array(value) for key, value in leaves.items()}
    count = len(next(iter(given.values())))
    answers = answer(run.pair, outputs, batch, count)
    place = run.folder / ANSWERS / f"{path.stem}_{run.side.NAME}.npz"
    with whole(place) as temporary, open(temporary, "wb") as file:
        np.savez(file, fed=np.frombuffer(bytes.fromhex(fed), np.uint8), **answers)
    run.progress(Kind.NOW_BATCH(batch=path.stem))


def demand_inputs(run, model, given):
    """Raise UserError where the data lack an array that the model's forward cannot do without."""
    taken = inspect.signature(model.forward).parameters.values()
    named = {key.partition("/")[0] for key in given}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [each.name for each in taken if each.default is each.empty and each.kind in kinds]
    missing = [name for name in needed if name not in named]
    if missing:
        said = {"missing": missing, "side": run.side.NAME, "given": list(given)}
        raise UserError(Kind.DATA_WITHOUT_INPUTS(**said))


def cases(pair, request):
    """Return the preset that step 2 runs, once."""
    return [data_case(pair, request)]


SCRIPT = {"stem": "agree", "function": agree, "dtypes": asked_precision, "cases": cases}
