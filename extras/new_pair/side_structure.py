"""What one side's model is made of, for a proposal of RENAME and `convert` (extras/new_pair).

    see    the model's modules, the owners of its weights, and one forward pass in float64: which
           modules are called, in which order, with which values
    try    the Paddle side alone: a pass with given weights, in which modules are fed what torch's
           were given and give what torch's gave; what each would have been given and given itself

NumPy only and the same on both sides.  The torch side runs on its initial weights with noise on
every parameter and statistic, as the case `perturbed` does, and leaves these weights and the inputs
and outputs of every module that has weights.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations

import numpy as np

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.pairs import PERTURBED, Case
from twincheck.common.pair.task import TRY
from twincheck.common.sides.job import Job
from twincheck.common.sides.probes import hooked
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Session, using
from twincheck.common.sides.shared_weights import make_weights
from twincheck.common.sides.upcast import upcasting
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.tree import tree_map
from twincheck.common.weights import states as weights
from twincheck.common.weights.layers import Owner

_ONE = 1e-9  # of the largest: float64's rounding is far below, what differs in earnest far above
_SAMPLES = 256  # values of a tensor that are kept of its order, and as many of its sizes


def fingerprint(values: np.ndarray) -> np.ndarray:
    """Three rows of a few hundred numbers of a tensor.

    Values by their places; values in rising order, which a tensor with other axes has too; and so
    each once, which one that is repeated along an axis has too; what rounding alone tells apart, as
    of sines of x and of pi - x, is there once.
    """
    flat = np.nan_to_num(np.asarray(values, np.float64).reshape(-1))
    rising = np.sort(flat)
    with np.errstate(over="ignore"):
        apart = np.diff(rising, prepend=-np.inf) > _ONE * np.abs(rising).max(initial=0.0)
    orders = (flat, rising, rising[apart]) if flat.size else ()
    rows = [v[np.linspace(0, v.size - 1, _SAMPLES).astype(np.int64)] for v in orders]
    return np.array(rows).reshape(-1, _SAMPLES)


class Seen:
    """The calls of a model's modules in one pass, as files hold them.

    whole    the modules whose inputs and outputs are kept whole beside their fingerprints
    given    "MODULE/CALL OF IT/in/NUMBER" -> what is used in that tensor's place: turned, where its
             axes stand in another order, as of a module that reads channels last; what is kept of
             the tensor is turned back
    nearer   modules -> how `axes_of` tells the order by values
    """

    def __init__(self, side, whole: Iterable[str] = (), given=None, nearer=None):
        self.side = side
        self.whole = whole
        self.given: Mapping[str, np.ndarray] = given or {}
        self.nearer: Mapping[str, float] = nearer or {}
        self.calls: list[dict] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.kept: dict[str, np.ndarray] = {}
        self._counts: dict[str, int] = {}
        self._names: list[str] = []
        self._axes: list[Sequence[int]] = []  # of each call's last tensor

    def begin(self, name: str, values: object) -> tuple[int, object]:
        """A module is called with these inputs: the number of the call, and what to give it."""
        self._counts[name] = self._counts.get(name, -1) + 1
        self._names.append(f"{name}/{self._counts[name]}")
        self.calls.append({"module": name, "in": [], "out": [], "turned": False})
        self._axes.append(())
        return len(self.calls) - 1, self._take(len(self.calls) - 1, "in", values)

    def end(self, call: int, values: object) -> object:
        """The call has returned these outputs: what to go on with."""
        return self._take(call, "out", values)

    def _take(self, call: int, what: str, values: object) -> object:
        """Keep a call's inputs or outputs; returns those to use in their place."""

        def change(path, value):
            told, array = self.calls[call], self.side.array(value)
            shapes = told[what]
            key = f"{call}/{what}/{len(shapes)}"
            given = self.given.get(f"{self._names[call]}/{what}/{len(shapes)}")
            nearer = self.nearer.get(told["module"], 0.0)
            axes = None if given is None else axes_of(given, array, self._axes[call], nearer)
            if axes is not None:
                self._axes[call] = axes
                told["turned"] |= list(axes) != sorted(axes) and given.shape == array.shape
                array, given = array.transpose(np.argsort(axes)), given.transpose(axes)
            self.arrays[key] = fingerprint(array)
            if told["module"] in self.whole:
                self.kept[key] = np.array(array)  # a copy: what comes later may write into it
            shapes.append(list(array.shape))
            fed = axes is not None and self.side.is_float(value)
            return self.side.like(given, value) if fed else value

        return tree_map(values, change, self.side.is_tensor)


def axes_of(given: np.ndarray, value: np.ndarray, usual: Sequence[int], nearer: float):
    """The order of the axes of `given` in which it is `value`; None where none has its shape.

    As `usual`, as of what a call was given for what it gave, or as they are: where there are as
    many places as channels, no shape tells, and another order is taken where its values are by far
    nearer.
    """
    orders = [o for o in (usual, *permutations(range(given.ndim))) if len(o) == given.ndim]
    orders = [o for o in orders if tuple(given.shape[i] for i in o) == value.shape]
    if len(orders) < 2:
        return orders[0] if orders else None
    gaps = [np.abs(np.subtract(given.transpose(o), value, dtype=np.float64)).sum() for o in orders]
    nearest = int(np.argmin(gaps))
    return orders[nearest if gaps[nearest] < nearer * gaps[0] else 0]


def answer(job: Job) -> None:
    """Do what a request's Inspect says."""
    if job.request.task.ask == TRY:
        _try(job)
    else:
        _see(job)


@contextmanager
def recording(side, model, seen):
    """Inside, `seen` is told of every call of a module of the model, but the model's own."""
    hooks, running = [], []

    for name, module in list(side.modules(model)):
        if name == "":
            continue

        def before(module, inputs, keywords, name=name):
            call, given = seen.begin(name, (inputs, keywords))
            running.append(call)
            return given

        def after(module, inputs, outputs):
            return seen.end(running.pop(), outputs)

        hooks.append((module, before, after))
    with hooked(hooks):
        yield


def _see(job: Job) -> None:
    """Write what a side's model is made of: structure_SIDE.json, .npz and owners_SIDE.json."""
    side, request = job.side, job.request
    case = replace(job.cases[0], name=PERTURBED, weights=PERTURBED)
    job = replace(job, cases=[case])
    told = {"error": "", "calls": []}
    arrays: dict[str, np.ndarray] = {}
    side.set_up("float32", request.device, request.seed)
    model = Run(job, case, "float32", Session(request.seed)).construct()
    owners = side.owners(model)
    told["modules"] = {name: type(module).__name__ for name, module in side.modules(model)}
    weights.save_owners(job.folder / f"owners_{side.NAME}.json", owners)
    try:
        state = None
        if side.NAME == "torch":
            make_weights(job)
            path = ResultFolder(job.folder).weights(case.name)
            state = told_apart(job.states.load(path), owners)
            weights.save_state(path, state)
        whole = {key.rpartition(".")[0] for key in owners} if side.NAME == "torch" else set()
        seen = Seen(side, whole)
        with _built(job, case) as (run, model):
            _pass(run, model, seen, state)
        told["calls"], arrays = seen.calls, seen.arrays
        weights.save_state(job.folder / f"whole_{side.NAME}.npz", seen.kept)
    except Exception as error:  # then names and shapes are all that there is
        told["error"] = f"{type(error).__name__}: {str(error).strip()[:300]}"
    path = job.folder / f"structure_{side.NAME}.json"
    weights.save_state(path.with_suffix(".npz"), arrays)
    write_json(path, told)


def told_apart(
    state: Mapping[str, np.ndarray], owners: Mapping[str, Owner]
) -> dict[str, np.ndarray]:
    """The state with noise on those buffers of one module that are alike: nothing else would tell
    a mean of ones from a variance of ones."""
    alike: dict[tuple, list[str]] = {}
    for key, values in state.items():
        if not owners[key].parameter and values.dtype.kind == "f" and owners[key].same_as == key:
            kind = (key.rpartition(".")[0], values.shape, values.tobytes())
            alike.setdefault(kind, []).append(key)
    rng = np.random.default_rng(0)
    changed = dict(state)
    for keys in alike.values():
        for key in keys[: len(keys) if len(keys) > 1 else 0]:
            noise = 0.1 * rng.random(state[key].shape)
            changed[key] = (state[key] * (1.0 + noise) + noise).astype(state[key].dtype)
    return changed


_kept: dict[str, tuple] = {}  # the model of the last trial: the next is of the same


def _try(job: Job) -> None:
    """Make the pass that trial.npz asks for; tried.json and tried.npz say what was seen."""
    asked = read_npz(job.folder / "trial.npz")
    state, given = (
        {key[len(what) :]: v for key, v in asked.items() if key.startswith(what)}
        for what in ("state:", "given:")
    )
    told = load_json(job.folder / "trial.json")
    with np.load(job.folder / "whole_torch.npz") as whole:
        given |= {key: whole[value] for key, value in told["same"].items()}
    seen = Seen(job.side, given=given, nearer=told["nearer"])
    case = replace(job.cases[0], name=PERTURBED, weights=PERTURBED)
    with _built(job, case, str(job.folder)) as (run, model):
        _pass(run, model, seen, state)
    weights.save_state(job.folder / "tried.npz", seen.arrays)
    write_json(job.folder / "tried.json", {"calls": seen.calls})


@contextmanager
def _built(job: Job, case: Case, name: str = "") -> Iterator[tuple]:
    """A run in float64 and its model, in eval mode; kept under `name` for the next."""
    with upcasting(True):
        if name not in _kept:
            job.side.set_up("float64", job.request.device, job.request.seed)
            session = Session(job.request.seed)
            session.begin()
            run = Run(job, case, "float64", session)
            with using(session):
                model = run.construct()
                model.eval()
            _kept.clear()
            _kept.update({name: (run, model)} if name else {})
        else:
            run, model = _kept[name]
        yield run, model


def _pass(run: Run, model, seen: Seen, state) -> None:
    """One forward pass; the model itself is the call of the module without a name."""
    run.session.begin()
    with using(run.session), run.no_gradients():
        if state is not None:
            run.side.load_state(model, state)
        tensors = run.tensors()
        with recording(run.side, model, seen):
            call, _ = seen.begin("", ())
            seen.end(call, run.call(model, tensors))
