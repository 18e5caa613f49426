"""The weights that both sides start from: made, described and saved by one side's process."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from twincheck.common.logs.match import is_constant
from twincheck.common.pair.case_hooks import SAMPLES
from twincheck.common.pair.data import load_arrays
from twincheck.common.pair.pairs import PERTURBED, Case, is_checkpoint
from twincheck.common.sides.job import Job, Suited
from twincheck.common.sides.library_loader import Carrier, has_loader
from twincheck.common.sides.model_file import build_model, load_model_file
from twincheck.common.sides.probes import probing
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Session, using
from twincheck.common.sides.upcast import upcasting
from twincheck.common.system.half import rounded
from twincheck.common.system.json_file import load_json
from twincheck.common.system.memory import no_collections
from twincheck.common.system.tree import tree_leaves
from twincheck.common.weights import states as weights
from twincheck.common.weights.noise import with_noise
from twincheck.common.weights.suits import Sizes, suited


def make_weights(job: Job) -> None:
    """Write every case's shared weights: the torch model's own initial state under the seed."""
    side, request = job.side, job.request
    files = job.files
    files.weights("").parent.mkdir(exist_ok=True)
    side.set_up("float32", request.device, request.seed)  # where the file's own constants are
    module = load_model_file(job)
    choices = Suited(job.folder, new=True)
    carrier = Carrier(job) if has_loader(job.pair) else None
    for case in _starts(job):
        side.set_up("float32", "cpu", request.seed + case.seed)  # one draw, whatever the device
        with no_collections():
            model = build_model(side, module, case.config)
        built = state = side.state(model)
        owners = side.owners(model)
        given = request.weights
        is_file = is_checkpoint(given)
        if given is None and case.trained:
            state = built | load_arrays(case.trained)
            weights.check_state(case.trained, state, owners)
        elif not is_file and PERTURBED in (case.weights, given):
            weights.save_owners(files.weights(case.start).with_suffix(".json"), owners)
            measure = measuring(job, case)
            state, level, because, left = suited(state, owners, request.seed, measure)
            floats = {k: v for k, v in state.items() if v.dtype.kind == "f" and v.size > 1}
            constant = left.union(k for k, v in floats.items() if is_constant(v))
            told = {"constant": sorted(constant)} if constant else {}
            choices.choose("noise", case.start, {"level": level, "because": because, **told})
        if is_file:  # the check has written it, or it is one that the workbench wrote
            folder = request.published
            path = Path(folder) / f"{job.pair.name}.npz" if folder else Path(given)
            state = weights.load_state(path)
            weights.check_state(given, state, owners)
        elif given not in (None, PERTURBED):
            state = with_noise(given, state, owners, request.seed, case.gain)
        state = {key: rounded(values, request.stored_dtype) for key, values in state.items()}
        job.states.save(files.weights(case.start), state, owners)
        buffers = [key for key, owner in owners.items() if not owner.parameter]
        job.as_built[case.start] = {k for k in buffers if np.array_equal(built[k], state[k])}
        if carrier is not None:
            carrier.write(case, state, owners)


def _starts(job: Job) -> list[Case]:
    """The cases, but for those that start from the weights of one before."""
    return list({case.start: case for case in reversed(job.cases)}.values())[::-1]


def read_folders(job: Job) -> None:
    """Let the candidate's own loader read every case's folders, where it carries the weights."""
    if has_loader(job.pair):
        carrier = Carrier(job)
        for case in _starts(job):
            carrier.read(case)


def describe(job: Job) -> None:
    """Write who owns what of the model's state dict: owners.json."""
    job.side.set_up("float32", job.request.device, job.request.seed)
    model = build_model(job.side, load_model_file(job), job.cases[0].config)
    weights.save_owners(job.files.owners(), job.side.owners(model))


def save(side, path: Path, stored: Path) -> None:
    """Write weights as this framework's own file.

    Beside the .npz a .json says of each name, in the model's order, under which it is stored there.
    """
    state, names = weights.load_state(stored), load_json(stored.with_suffix(".json"))
    side.set_up("float32", "cpu", 0)
    tensors = {key: side.from_array(values) for key, values in state.items()}
    side.lib.save({name: tensors[key] for name, key in names.items()}, str(path))


# ---- how large activations are under given weights -----------------------------------------------


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
        with probing(run.side, model):
            outputs = run.call(model, tensors)
        for _, value in tree_leaves(outputs, run.side.is_tensor):
            sizes.see_output(run.side.array(value))
        run.session.probing = False
        if hasattr(run.module, "loss"):
            sizes.loss = float(run.loss(outputs, tensors))
        run.session.probing = True
    return sizes
