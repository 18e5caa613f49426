"""Whether a model computes another function in train mode, and so has to be run in both modes.

Asked by running it, not by looking for layers: whatever a model does while it trains shows in its
outputs, its loss or its buffers.  Dropout with a rate of 0 is no other function, and a BatchNorm
whose statistics are frozen is none.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from twincheck.common.pair.pairs import SAME
from twincheck.common.sides.places import error_sentence
from twincheck.common.sides.session import Session, using
from twincheck.common.system.errors import UserError, is_ours
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import named_leaves


def why_not_run(run) -> str:
    """Return why the case that a check adds for train mode does not run; empty where it does.

    The reference decides: SAME, or with what error it ended in train mode.  Where that is SAME the
    candidate looks at itself too, and says in what its own modes differ.
    """
    case = run.case.name
    known = run.suited.modes.get(case)
    if run.job.is_reference and known is None:
        try:
            known = "" if difference(run) else SAME
        except UserError:
            raise
        except Exception as error:
            if is_ours(error):
                raise
            known = Kind.TRAIN_MODE_FAILS(error=error_sentence(error))
        run.suited.choose("modes", case, known)
    if not run.job.is_reference and known == SAME:
        if case not in run.job.modes:
            run.job.modes[case] = difference(run) or SAME
        return run.job.modes[case]
    return known or ""


@contextmanager
def unrecorded(run) -> Iterator[None]:
    """Inside, the run's model sees the same random numbers, and nothing of it is recorded."""
    session = Session(run.session.tape.seed)
    session.rename, session.draws.own_sites = run.session.rename, run.session.draws.own_sites
    session.begin(prefix=run.prefix)
    with using(session), run.no_gradients():
        yield


def difference(run) -> str:
    """Return what differs between the model's modes, from one start; empty where nothing does.

    Of whatever the model draws both see the same numbers.
    """
    model, found, changed = run.build(training=True), [], []
    for training in (False, True):
        model.train() if training else model.eval()
        before, tensors = run.buffers(model), run.tensors()
        with unrecorded(run):
            outputs = run.call(model, tensors)
            leaves = named_leaves(outputs, run.side.is_tensor)
            with suppress(Exception):  # of a loss that fails step 3 tells
                leaves["loss"] = run.loss(outputs, tensors)
        after = run.buffers(model)
        changed.append([name for name, now in after.items() if before.get(name) != now])
        found.append({name: run.side.array(value) for name, value in leaves.items()})
    # What eval mode changes too is made anew in each pass, such as a normalised weight.
    moved = [name for name in changed[1] if name not in changed[0]]
    if moved:
        return Kind.TRAIN_MODE_BUFFER(name=moved[0])
    other, trained = found
    differing = [n for n in trained | other if not _alike(trained.get(n), other.get(n))]
    return Kind.TRAIN_MODE_OUTPUT(name=differing[0]) if differing else ""


def _alike(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    both = one is not None and other is not None
    return both and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
