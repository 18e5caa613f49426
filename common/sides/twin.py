"""What every twin script shares: options, the loop over models and precisions, logs, sidecars.

A script defines `function(run)`, which computes and logs one case, and calls `main`.  It needs
NumPy and its own framework, nothing else.  The float64 run comes first; the reference's records the
discrete choices, and every other run goes on with them (common/verdict/choices.py says why).
"""

import argparse
import importlib
import inspect
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np

from common.logs.reader import read_log
from common.logs.sidecar import SCHEMA, Sidecar, read_sidecar, write_sidecar
from common.logs.writer import LogWriter
from common.pair.case_hooks import SAMPLES, data_preset
from common.pair.data import load_arrays
from common.pair.pairs import STIRRED, WORDS, Case, Pair, load_pairs
from common.pair.provenance import model_sources, workbench_sha256
from common.pair.tape import Tape
from common.sides.compat import COMPAT, forbid_compat, frameworks_loaded, torch_is_paddle
from common.sides.places import of_framework_file, short_place
from common.sides.session import Session, current, using
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.frameworks import SETTINGS
from common.system.hashes import arrays_sha256
from common.system.json_file import load_json
from common.system.npz import read_npz
from common.system.parent import watch
from common.system.tree import join_path, tree_map
from common.transplant import operators
from common.weights import states as weights
from common.weights.layers import own_parameters
from common.weights.layout import Layout, LayoutError, SameLayout
from common.weights.published import published, stored_weights

DTYPES = ("float64", "float32")
PHASES = ("first", "full", "self")  # of step 5


class Run:
    """One case of one model on one side in one precision, as a step's function sees it."""

    def __init__(
        self,
        side: ModuleType,
        pair: Pair,
        case: Case,
        options: argparse.Namespace,
        dtype: str,
        folder: Path,
        session: Session,
        first_case: str,
    ):
        self.side = side
        self.pair = pair
        self.case = case
        self.options = options
        self.dtype = dtype
        self.folder = folder  # where this model's logs go
        self.session = session
        self.prefix = f"{case.name}/" if case.name else ""
        self.first_case = first_case
        self.training = case.train  # what build() makes unless told otherwise
        self.draws = importlib.import_module(f"common.sides.{side.NAME}_dropout")
        self.stored_weights = folder / "weights" / f"{case.name or 'main'}.npz"
        self.notes: dict[str, object] = {}  # what the sidecar should say beside the usual
        self.extra: dict[str, dict[str, np.ndarray]] = {}  # stem -> a further small log
        self.data: dict[str, dict[str, np.ndarray]] = {}
        if options.data:
            self.data = _data(Path(options.data) / pair.name)
            named = [(f"{n}/{k}", v) for n, arrays in self.data.items() for k, v in arrays.items()]
            self.inputs = dict(named)
        else:
            self.inputs = pair.inputs(case, options.preset, options.seed)
        self.batch = next((v.shape[0] for v in self.inputs.values() if v.ndim), None)
        self.module = _load_model_file(pair, side)
        if options.transplant:
            options.transplant.install()
        self.layout: Layout | SameLayout | None = SameLayout() if side.NAME == "torch" else None

    @property
    def data_preset(self) -> str:
        """The preset that steps 2 and 5 run."""
        return data_preset(self.pair, self.options.preset)

    def samples(self, part: str) -> dict[str, np.ndarray]:
        """Name -> array (N, ...) of a part of the pair's data: train, validation or test."""
        arrays = self.data[SAMPLES]
        prefix = f"{part}/"
        return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}

    def data_file(self, name: str) -> Path | None:
        """A further file of the pair's data, such as a tokenizer's model; None where it is not."""
        path = Path(self.options.data or "") / self.pair.name / name
        return path if self.options.data and path.is_file() else None

    def log(self, key: str, values: object) -> None:
        """Log one array (or tensor) under this case's prefix."""
        if self.side.is_tensor(values):
            values = self.side.array(values)
        self.session.record(self.prefix + key, np.asarray(values))
        self.session.note_place(self.prefix + key)

    def log_nested(self, key: str, values: object) -> object:
        """Log every tensor of nested outputs; keys are joined by '/'.

        Returns them; in single-step mode the reference's values, since what follows is fed those.
        """

        def change(path, value):
            label = self.session.label(join_path((key, *path) if key else path) or "output")
            self.log(label, value)
            given = self.reference(label)
            if given is None or not self.side.is_float(value):
                return value
            same = list(given.shape) == list(value.shape)
            return self.side.with_values(value, given) if same else value

        return tree_map(values, change, self.side.is_tensor)

    def log_choice(self, key: str, scores: np.ndarray) -> np.ndarray:
        """Log which score is largest along the last axis, with its margin, as a discrete choice."""
        top = np.sort(scores, axis=-1)[..., -2:]
        choice = scores.argmax(axis=-1)
        self.log(f"{key}:scores", scores)
        self.log(f"{key}:margin", top[..., 1] - top[..., 0])
        self.log(key, choice)
        path = self.prefix + key
        self.session.ledger[path] = {"margin": f"{path}:margin", "scores": f"{path}:scores"}
        return choice

    def reference(self, key: str) -> np.ndarray | None:
        """Single-step mode: the reference's value of a key of this case; else None."""
        if self.session.reference is None:
            return None
        return self.session.reference.get(self.prefix + key)

    def build(self, training: bool | None = None):
        """The case's model with the shared weights, in this run's precision and mode."""
        training = self.training if training is None else training
        model = self.draws.follow(self.module.build(dict(self.case.config)))
        self.load(model, self.start())
        model.train() if training else model.eval()  # older Paddle's return None
        rates = self.side.settle(model, training)
        if rates:
            self.notes["recurrent_dropout_not_drawn"] = rates
        return model

    def start(self) -> dict[str, np.ndarray]:
        """The shared weights that the case starts from, under torch's names."""
        return weights.load_state(self.stored_weights)

    def torch_state(self, model) -> dict[str, np.ndarray]:
        """A model's state under torch's names and in its layout."""
        state = self.side.state(model)
        return self.layout.to_torch(state) if isinstance(self.layout, Layout) else state

    def load(self, model, state: Mapping[str, np.ndarray]) -> None:
        """Put torch-named weights into a model of this side, through the layout.

        What arrived is read back out of the model once, for the certificate.
        """
        if self.layout is None:
            case = self.pair.case
            self.layout = Layout(
                weights.load_owners(self.stored_weights),
                self.side.owners(model),
                getattr(case, "RENAME", {}),
                getattr(case, "convert", None),
            )
            self.session.rename = self.layout.rename
            self.session.converted += [
                self.prefix + name for name in self.layout.converted_modules()
            ]
        first = "read_back" not in self.notes
        if first and isinstance(self.layout, Layout):
            self.notes["certificate"] = self.layout.certificate()
            if self.options.certify:
                round_trip = weights.goes_round(self.layout, self.side.state(model))
                self.notes["paddle_to_torch"] = round_trip
                self.notes["hidden_rows"] = weights.hidden_rows(self.layout, state)
        layout = self.layout
        values = layout.to_paddle(state) if isinstance(layout, Layout) else state
        self.side.load_state(model, values)
        if first:
            entries = ((k, self.side.array(v)) for k, v in model.state_dict().items())
            self.notes["read_back"] = weights.changed(layout, entries, state)
            names = [name for name, _ in self.side.probed_modules(model)]
            for name, count in own_parameters(self.side.owners(model), names).items():
                self.session.modules[self.prefix + self.session.rename(name)] = count

    def tensors(self) -> dict[str, object]:
        """The inputs as tensors of this side."""
        return {key: self.side.tensor(values) for key, values in self.inputs.items()}

    def call(self, model, tensors: Mapping[str, object]):
        """The model's outputs; it gets the inputs that its forward names, not the labels."""
        accepted = inspect.signature(model.forward).parameters
        self.session.running.clear()
        before = self.draws.random_state()
        outputs = model(**{key: value for key, value in tensors.items() if key in accepted})
        if self.draws.random_state() != before:
            self.notes["untaped_draws"] = True
        return outputs

    def loss(self, outputs, tensors: Mapping[str, object]):
        """The pair's scalar loss; raises UserError where the model's file has none."""
        if not hasattr(self.module, "loss"):
            raise UserError(
                f"{self.pair.folder / f'{self.side.NAME}_model.py'}: steps 3, 4 and 5 need "
                "loss(outputs, inputs) -> scalar"
            )
        return self.module.loss(outputs, tensors)

    def parameters(self, model) -> list[tuple[str, object]]:
        """(this side's name, parameter) of every trainable parameter, in the model's order."""
        return self.side.trainable(model)

    def decayed(self, model) -> set[str]:
        """Names of the parameters that have more than one axis in the reference."""
        ndim = getattr(self.layout, "torch_ndim", None)
        pairs = self.parameters(model)
        return {name for name, value in pairs if (ndim(name) if ndim else value.ndim) > 1}

    def padding(self) -> dict[str, int]:
        """The reference's name of an embedding's weight -> its padding_idx."""
        owners = weights.load_owners(self.stored_weights)
        kept = {k: o.padding for k, o in owners.items() if o.padding is not None and o.same_as == k}
        return kept | getattr(self.pair.case, "PADDING_ROWS", {})

    def as_reference(
        self, pairs: Iterable[tuple[str, np.ndarray]]
    ) -> Iterator[tuple[str, np.ndarray]]:
        """(this side's name, array) of parameters, or of their gradients or moments -> the same
        under the reference's names and in its layout, each as soon as its parts are there."""
        return self.layout.as_torch(pairs)

    def from_reference(
        self, name: str, lookup: Callable[[str], np.ndarray | None]
    ) -> np.ndarray | None:
        """A parameter of this side, from arrays that are looked up by the reference's names."""
        return self.layout.from_torch(name, lookup)

    def reference_parameter(self, group: str, name: str) -> np.ndarray | None:
        """Single-step mode: the reference's value of a parameter in a group of keys; else None."""
        return self.from_reference(name, lambda key: self.reference(f"{group}/{key}"))

    def progress(self, what: str) -> None:
        """Say where this run is, for the check's progress bar."""
        if self.options.progress:
            print(f"@progress {self.pair.name} {self.dtype} {what}", flush=True)


def main(
    side: ModuleType,
    stem: str,
    function: Callable[[Run], None],
    dtypes: tuple[str, ...] = DTYPES,
    cases: Callable[[Pair, argparse.Namespace], list[Case]] | None = None,
    part: str = "",
) -> int:
    """Run a twin script for every model asked for; returns the exit status (0, or 2 on errors).

    stem     names the logs: `forward` gives forward_torch.npy, forward_torch_fp64.npy, …
    cases    what to run for a pair; by default the preset's cases
    part     a folder in the model's for the logs of a process that is one of several
    """
    watch()
    options = _parse(stem)
    status = 0
    try:
        options.transplant = _transplant(side, options.transplant)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for draws in ("dropout", "choices"):
        importlib.import_module(f"common.sides.{side.NAME}_{draws}").patch()
    forbid_compat()
    try:
        if options.save:
            _save(side, Path(options.save), Path(options.weights))
            return 0
        pairs = [published(pair, options.published) for pair in load_pairs(options.model)]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for pair in pairs:
        folder = Path(options.out) / pair.name / part
        folder.mkdir(parents=True, exist_ok=True)
        try:
            chosen = (cases or _cases)(pair, options)
            _run_model(side, stem, function, pair, chosen, options, dtypes, folder)
        except Exception as error:
            status = 2
            text = "".join(traceback.format_exception(error))
            if isinstance(error, UserError) or _raised_by_pair(error, pair):
                sentence = str(error)
            else:
                sentence = f"the {side.NAME} twin of {pair.name} crashed: {_sentence(error)}"
            told = {"sentence": sentence, "traceback": text}
            if isinstance(error, LayoutError):
                told["certificate"] = error.certificate
            (folder / f"error_{side.NAME}.json").write_text(json.dumps(told))
            print(f"error: {sentence}", file=sys.stderr)
            if options.debug:
                print(text, file=sys.stderr)
    return status


@lru_cache(maxsize=1)
def _data(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """Stem -> arrays of a model's data files; read once for all its seeds and precisions."""
    return {path.stem: load_arrays(path) for path in sorted(folder.glob("*.npz"))}


def _transplant(side: ModuleType, text: str | None):
    """What torch computes on the Paddle side, in place; None where it is nothing."""
    if not text or side.NAME == "torch":
        return None
    names = operators.chosen(text)
    try:
        made = importlib.import_module("common.transplant.patch").Transplant(
            names, lambda: current().site_of_draw()
        )
    except ModuleNotFoundError as error:
        raise UserError(
            f"--transplant: the Paddle side's Python has no {error.name}: it needs both frameworks"
        ) from None
    made.install()
    return made


def _cases(pair: Pair, options: argparse.Namespace) -> list[Case]:
    """What steps 1, 3 and 4 run of a pair."""
    return pair.cases(options.preset, options.weights, options.train)


def cases_with_decoding(pair: Pair, options: argparse.Namespace) -> list[Case]:
    """The same, and the cases that decode with a cache."""
    return pair.cases(options.preset, options.weights, options.train, decode=True)


def _raised_by_pair(error: Exception, pair: Pair) -> bool:
    """True for a ValueError that the pair itself raised: a sentence about a configuration."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ValueError) and Path(frames[-1].filename).parent == pair.folder


def phase() -> str:
    """Step 5's --phase, before the options are parsed: it decides what main is called with."""
    given = [PHASES[0]] + sys.argv[1:]
    return given[given.index("--phase") + 1] if "--phase" in given[:-1] else PHASES[0]


def _sentence(error: Exception) -> str:
    """One line of an exception, with the line of the model where it happened."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not of_framework_file(frame.filename)
    ]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    lines = [line for line in str(error).strip().splitlines() if line.strip()] or [""]
    # Paddle ends a long C++ report with the sentence that matters.
    text = next((line for line in lines if "Error:" in line), lines[0])
    return f"{type(error).__name__}{where}: {text.strip()[:300]}"


def _parse(stem: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"One side of a step; writes {stem}_SIDE.npy. check_stepN.py runs both sides."
    )
    parser.add_argument("--model", action="append", help="built-in name, folder, or all (default)")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", help="a torch-named .npz, or trained-like")
    parser.add_argument("--certify", action="store_true", help="for common.certificate")
    parser.add_argument("--published", help="a folder of common/weights/checkpoint.py's")
    parser.add_argument("--describe", action="store_true", help="only write who owns which weights")
    parser.add_argument("--save", help="only write --weights as this framework's own file")
    parser.add_argument("--out", default=f"log_{stem}", help="one folder a model is made in here")
    parser.add_argument("--data", help="folder of the embedded data (steps 2 and 5)")
    parser.add_argument("--epochs", type=int, help="step 5: instead of the preset's number")
    parser.add_argument("--steps", type=int, help="step 5: of the whole training, instead of that")
    parser.add_argument("--seeds", type=int, default=1, help="step 5: trainings, each its own seed")
    parser.add_argument("--checkpoints", help="step 5: folder of the checkpoints")
    parser.add_argument("--checkpoint-every", type=int, help="step 5: steps, instead of a minute")
    parser.add_argument("--resume", action="store_true", help="step 5: go on from the checkpoints")
    parser.add_argument(
        "--single-step", action="store_true", help="feed probes the reference's values"
    )
    parser.add_argument("--train", action="store_true", help="train mode, dropout from the tape")
    parser.add_argument("--phase", choices=PHASES, help="step 5: which part to run")
    parser.add_argument("--data-weights", choices=("initial", "stirred"), default="initial")
    parser.add_argument("--processes", type=int, default=1, help="parts of a batch (parallel.py)")
    parser.add_argument("--transplant", help="operators that torch computes on the Paddle side")
    parser.add_argument("--uncounted", action="store_true", help="without Paddle's own beside it")
    parser.add_argument("--only-float32", action="store_true", help="leave out the float64 run")
    parser.add_argument("--progress", action="store_true", help="report progress on stdout")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args()
    options.model = options.model or ["all"]
    return options


def _run_model(side, stem, function, pair, cases, options, dtypes, folder) -> None:
    """Every precision of one model, then the unforced float32 run where a choice fell otherwise.

    Without a float64 run (step 5's whole training) nothing is forced, and the weights are there.
    """
    if options.describe:
        _describe(side, pair, cases[0], options, folder)
        return

    def write(name, dtype, forced, reference=None, probing=True):
        path = folder / f"{stem}_{side.NAME}{name}.npy"
        return _write_log(
            side, function, pair, cases, options, dtype, path, forced, reference, probing
        )

    aligned = "float64" in dtypes
    if side.NAME == "torch" and aligned:
        _make_weights(side, pair, cases, options, folder)
    choices_path = folder / f"{stem}_choices.npz"
    forced = _load_choices(choices_path) if side.NAME == "paddle" and aligned else None
    if options.single_step:
        with read_log(folder / f"{stem}_torch_fp64.npy") as reference:
            write("_fp64_single_step", "float64", forced, reference)
        return
    no_float64 = ""
    for dtype in dtypes[-1:] if options.only_float32 else dtypes:
        try:
            session = write("_fp64" if dtype == "float64" else "", dtype, forced)
        except Exception as error:
            # A model may be tied to float32.  If it is only wrong, float32 fails too, and says so.
            # A full disk or memory says nothing of the model.
            elsewhere = isinstance(error, UserError | OSError | MemoryError)
            if dtype != "float64" or elsewhere or _raised_by_pair(error, pair):
                raise
            no_float64 = _sentence(error)
            continue
        if no_float64:
            path = folder / f"{stem}_{side.NAME}.npy"
            write_sidecar(path, replace(read_sidecar(path), no_float64=no_float64))
        if side.NAME == "torch" and aligned and forced is None:
            forced = session.choices
            weights.save_state(choices_path, forced)
        if dtype == "float32" and session.flips:
            write("_unforced", dtype, None, probing=False)


def _load_model_file(pair: Pair, side: ModuleType) -> ModuleType:
    """The pair's module of a side; UserError where `import torch` then gives Paddle."""
    module = pair.side(side.NAME)
    if torch_is_paddle():
        raise UserError(COMPAT)
    return module


def _load_choices(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise UserError(
            f"{path.name}: run the torch side first; the Paddle side follows its choices"
        )
    try:
        return read_npz(path)
    except ValueError as error:
        raise UserError(f"{path}: these are no recorded choices: {error}") from None


def _make_weights(side, pair, cases, options, folder) -> None:
    """Write every case's shared weights: the torch model's own initial state under the seed."""
    (folder / "weights").mkdir(exist_ok=True)
    module = _load_model_file(pair, side)
    for case in cases:
        side.set_up("float32", options.device, options.seed + case.seed)
        model = module.build(dict(case.config))
        state, owners = side.state(model), side.owners(model)
        if case.weights == STIRRED and options.weights != STIRRED:
            state = weights.made(STIRRED, state, owners, options.seed)
        if options.weights in WORDS:
            state = weights.made(options.weights, state, owners, options.seed, case.gain)
        elif options.weights is not None:
            state = weights.load_state(stored_weights(pair, options.published, options.weights))
            weights.check_state(options.weights, state, owners)
        weights.save_state(folder / "weights" / f"{case.name or 'main'}.npz", state, owners)


def _describe(side, pair, case, options, folder) -> None:
    """Write who owns what of the model's state dict: owners.json."""
    side.set_up("float32", options.device, options.seed)
    model = _load_model_file(pair, side).build(dict(case.config))
    weights.save_owners(folder / "owners.json", side.owners(model))


def _save(side, path: Path, stored: Path) -> None:
    """Write weights as this framework's own file.

    Beside the .npz a .json says of each name, in the model's order, under which it is stored there.
    """
    state, names = weights.load_state(stored), load_json(stored.with_suffix(".json"))
    side.set_up("float32", "cpu", 0)
    side.save_arrays(path, state, names)


def _write_log(
    side, function, pair, cases, options, dtype, path, forced, reference=None, probing=True
) -> Session:
    """One log with its sidecar: every case of a model in one precision."""
    start = time.perf_counter()
    notes: dict[str, object] = {}
    if options.transplant:
        counted = dtype == "float32" and reference is None and not options.uncounted
        options.transplant.compare = counted
    inputs: dict[str, np.ndarray] = {}
    states: dict[str, np.ndarray] = {}
    batches: dict[str, int | None] = {}
    extra: dict[str, dict[str, np.ndarray]] = {}
    with LogWriter(path) as writer:
        session = Session(options.seed, record=writer.add, forced=forced, reference=reference)
        session.probing = probing
        for case in cases:
            side.set_up(dtype, options.device, options.seed + case.seed)
            session.tape = Tape(options.seed + case.seed)
            session.begin(prefix=f"{case.name}/" if case.name else "")
            run = Run(side, pair, case, options, dtype, path.parent, session, cases[0].name)
            run.progress(case.name or path.stem)
            with using(session):
                function(run)
            inputs |= {run.prefix + key: values for key, values in run.inputs.items()}
            batches[run.prefix] = run.batch
            stored = path.parent / "weights" / f"{case.name or 'main'}.npz"
            states |= {run.prefix + key: v for key, v in weights.load_state(stored).items()}
            extra |= run.extra
            for key, value in run.notes.items():
                notes.setdefault(key, {})[case.name or "main"] = value
    if options.transplant:
        notes["transplanted"] = options.transplant.names
        notes["operators"] = options.transplant.told()
    sidecar = Sidecar(
        schema=SCHEMA,
        step=path.name.split("_" + side.NAME)[0],
        model=pair.name,
        side=side.NAME,
        framework=side.NAME,
        framework_version=side.VERSION,
        framework_file=str(side.FILE),
        frameworks_loaded=frameworks_loaded(),
        torch_is_paddle=torch_is_paddle(),
        device=options.device,
        dtype=dtype,
        preset=options.preset,
        seed=options.seed,
        train=options.train,
        weights=options.weights or "initial",
        sources=model_sources(pair, side.NAME),
        workbench_sha256=workbench_sha256(pair, side.NAME, _module_name().split(".")[0]),
        inputs_sha256=arrays_sha256(inputs),
        weights_sha256=arrays_sha256(states),
        log_sha256=writer.sha256,
        forced_choices=forced is not None,
        flips=session.flips,
        choices=session.ledger,
        single_step=reference is not None,
        batches=batches,
        modules=session.modules,
        converted=session.converted,
        places={key: short_place(place, str(ROOT)) for key, place in session.places.items()},
        classes={key: name for key, name in session.classes.items() if name},
        environment={
            "python": platform.python_version(),
            "executable": sys.executable,
            "numpy": np.__version__,
            "platform": platform.platform(),
            **{name: os.environ[name] for name in SETTINGS if name in os.environ},
        },
        command=" ".join([sys.executable, "-m", _module_name(), *sys.argv[1:]]),
        time=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        elapsed_s=round(time.perf_counter() - start, 3),
        **notes,
    )
    write_sidecar(path, sidecar)
    for stem, arrays in extra.items():
        small = path.with_name(f"{stem}_{side.NAME}.npy")
        with LogWriter(small) as writer:
            for key, values in arrays.items():
                writer.add(key, values)
        write_sidecar(small, replace(sidecar, step=stem, log_sha256=writer.sha256))
    return session


def _module_name() -> str:
    """The dotted name of the script that is running, such as step1_forward.torch.forward."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec else Path(sys.argv[0]).name
