"""What one side's model is made of, for a proposal of RENAME and `convert` (common/setup).

    STRUCTURE      of a request: the model's modules, the owners of its weights, and one forward
                   pass in float64: which modules are called, in which order, with which values

NumPy only and the same on both sides.  The torch side runs on its initial weights with noise on
every parameter and statistic, as the case `stirred` does, and leaves these weights and the outputs
of every module that has weights.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from common.logs.result_folder import ResultFolder
from common.pair.pairs import STIRRED, Case
from common.sides.lift import lifting
from common.sides.run import Job, Run
from common.sides.session import Session, using
from common.sides.shared_weights import make_weights
from common.system.json_file import write_json
from common.system.tree import tree_leaves
from common.weights import states as weights

STRUCTURE = "structure"
_SAMPLES = 256  # values of a tensor that are kept of its order, and as many of its sizes
OUTPUT = ""  # the model itself is the module without a name


def fingerprint(values: np.ndarray) -> np.ndarray:
    """A few hundred numbers of a tensor: values in rising order, then values by their places."""
    flat = np.nan_to_num(np.asarray(values, np.float64).reshape(-1))
    if not flat.size:
        return flat
    places = np.linspace(0, flat.size - 1, min(_SAMPLES, flat.size)).astype(np.int64)
    return np.concatenate([np.sort(flat)[places], flat[places]])


class Seen:
    """The calls of a model's modules in one pass, as files hold them."""

    def __init__(self, side, whole: set[str]):
        self.side = side
        self.whole = whole  # modules whose outputs are kept whole
        self.calls: list[dict] = []
        self.arrays: dict[str, np.ndarray] = {}

    def begin(self, name: str, values: object) -> int:
        """A module is called with these inputs; the number of the call."""
        self.calls.append({"module": name, "in": [], "out": []})
        self._take(len(self.calls) - 1, "in", values, False)
        return len(self.calls) - 1

    def end(self, call: int, values: object) -> None:
        """The call has returned these outputs."""
        self._take(call, "out", values, self.calls[call]["module"] in self.whole)

    def _take(self, call: int, what: str, values: object, whole: bool) -> None:
        for _, leaf in tree_leaves(values, self.side.is_tensor):
            shapes = self.calls[call][what]
            array = self.side.array(leaf)
            key = f"{call}/{what}/{len(shapes)}"
            self.arrays[key] = fingerprint(array)
            if whole:
                self.arrays[f"{key}/whole"] = np.array(array)
            shapes.append(list(array.shape))


def write_structure(job: Job, modules, recording) -> None:
    """Write what a side's model is made of: structure_SIDE.json, .npz and owners_SIDE.json.

    modules     of the side: a model's (name, module), the model itself first
    recording   of the side: a context in which every module's calls are seen
    """
    side, request = job.side, job.request
    case = replace(job.cases[0], name=STIRRED, weights=STIRRED)
    job = replace(job, cases=[case])
    told = {"error": "", "calls": []}
    arrays: dict[str, np.ndarray] = {}
    side.set_up("float32", request.device, request.seed)
    model = Run(job, case, "float32", Session(request.seed)).construct()
    owners = side.owners(model)
    told["modules"] = [
        [name, type(module).__name__, type(module).__module__] for name, module in modules(model)
    ]
    weights.save_owners(owners_path(job.folder, side.NAME), owners)
    try:
        if side.NAME == "torch":
            make_weights(job)
        seen = Seen(side, {key.rpartition(".")[0] for key in owners})
        _pass(job, case, lambda model: recording(model, seen), seen)
        told["calls"], arrays = seen.calls, seen.arrays
    except Exception as error:  # then names and shapes are all that there is
        told["error"] = f"{type(error).__name__}: {str(error).strip()[:300]}"
    path = structure_path(job.folder, side.NAME)
    weights.save_state(path.with_suffix(".npz"), arrays)
    write_json(path, told)


def _pass(job: Job, case: Case, watched, seen: Seen, state=None) -> None:
    """One forward pass in float64, in eval mode."""
    side = job.side
    with lifting(True):
        side.set_up("float64", job.request.device, job.request.seed)
        session = Session(job.request.seed)
        session.begin()
        run = Run(job, case, "float64", session)
        with using(session), run.no_gradients():
            model = run.construct()
            model.eval()
            if side.NAME == "torch":
                side.load_state(model, job.states.load(ResultFolder(job.folder).weights(case.name)))
            elif state is not None:
                side.load_state(model, state)
            with watched(model):
                call = seen.begin(OUTPUT, ())
                seen.end(call, run.call(model, run.tensors()))


def structure_path(folder: Path, side: str) -> Path:
    """Where a side's structure is."""
    return folder / f"structure_{side}.json"


def owners_path(folder: Path, side: str) -> Path:
    """Where the owners of its weights are."""
    return folder / f"owners_{side}.json"
