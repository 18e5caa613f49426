"""How large a model's activations are under given weights: one forward pass, nothing logged."""

from collections.abc import Callable, Mapping

import numpy as np

from twincheck.common.pair.case_hooks import SAMPLES
from twincheck.common.pair.pairs import Case
from twincheck.common.sides.job import Job
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Session, using
from twincheck.common.sides.upcast import upcasting
from twincheck.common.system.tree import tree_leaves
from twincheck.common.weights.suits import Sizes

_PART_OF_DATA = 8  # samples, where a step runs on a data set


def measuring(job: Job, case: Case) -> Callable[[Mapping[str, np.ndarray]], Sizes | None]:
    """A function of a state: the sizes of the case's forward pass.

    The owners of the case's weights are stored already; the model is built once.  It is measured in
    float64, and a large one in float32, which takes half as long: decades are the same in both.
    One that fails in its precision is measured in the other, such as one that is tied to float32;
    one that fails in both gives None: its own run says why.
    """
    runs: list[tuple[Run, object]] = []
    precisions = ["float64", "float32"]
    if job.is_large(case):
        precisions.reverse()

    def measure(state: Mapping[str, np.ndarray]) -> Sizes | None:
        for dtype in [run.dtype for run, _ in runs] or precisions:
            try:
                with upcasting(dtype == "float64"):
                    if not runs:
                        run = _run(job, case, dtype)
                        job.states.hold(run.stored_weights, state)
                        with using(run.session):
                            runs.append((run, run.build()))
                    else:
                        runs[0][0].load(runs[0][1], state)
                    return _measure(*runs[0])
            except Exception:
                runs.clear()
        return None

    return measure


def _run(job: Job, case: Case, dtype: str) -> Run:
    seed = job.request.seed + case.seed
    job.side.set_up(dtype, job.request.device, seed)
    session = Session(seed, record=lambda key, values: None)
    session.begin(prefix=f"{case.name}/" if case.name else "")
    run = Run(job, case, dtype, session)
    if SAMPLES in run.data:
        run.inputs = {k: values[:_PART_OF_DATA] for k, values in run.samples("train").items()}
    return run


def _measure(run: Run, model: object) -> Sizes:
    sizes = Sizes()
    run.session.begin(prefix=run.prefix)
    run.session.record = sizes.see
    tensors = run.tensors()
    with using(run.session), run.no_gradients():
        with run.side.probing(model):
            outputs = run.call(model, tensors)
        for _, value in tree_leaves(outputs, run.side.is_tensor):
            sizes.see_output(run.side.array(value))
        run.session.probing = False
        if hasattr(run.module, "loss"):
            sizes.loss = float(run.loss(outputs, tensors))
        run.session.probing = True
    return sizes
