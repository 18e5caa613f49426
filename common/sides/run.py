"""One run of a step's function: what it is given, and how it logs."""

import hashlib
import inspect
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from twincheck.common.logs.key import BUFFER
from twincheck.common.logs.sidecar import OWN
from twincheck.common.logs.writer import LogWriter
from twincheck.common.pair.case_hooks import SAMPLES, data_preset
from twincheck.common.pair.data import load_arrays
from twincheck.common.pair.nested import nested
from twincheck.common.pair.pairs import Case
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.task import Usual
from twincheck.common.pair.windows import part_of
from twincheck.common.sides import building, graphs
from twincheck.common.sides.dropouts import follow
from twincheck.common.sides.job import Job, Suited
from twincheck.common.sides.library_loader import layout_of
from twincheck.common.sides.lines_run import heard
from twincheck.common.sides.model_file import build_model, function_of, load_model_file
from twincheck.common.sides.places import noting_makers
from twincheck.common.sides.probes import fix_recurrent_dropout, with_values
from twincheck.common.sides.session import Session, current
from twincheck.common.system.errors import UserError
from twincheck.common.system.half import HALF, rounded
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.memory import no_collections
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import join_path, tree_map
from twincheck.common.weights import states as weights
from twincheck.common.weights.layers import own_parameters
from twincheck.common.weights.layout import Layout, SameLayout
from twincheck.common.weights.loaded import LoadedLayout
from twincheck.common.weights.round_trip import changed_keys, filled_padding_rows, one_way_keys


class Run:
    """One case of one model on one side in one precision, as a step's function sees it."""

    def __init__(
        self,
        job: Job,
        case: Case,
        dtype: str,
        session: Session,
        writer: LogWriter | None = None,
        again: int = 0,
    ):
        self.job = job
        self.side = job.side
        self.pair = pair = job.pair
        self.case = case
        self.request = request = job.request
        self.group = job.group
        self.dtype = dtype
        self.folder = job.folder
        self.session = session
        later = job.cases[job.cases.index(case) + 1 :] if case in job.cases else []
        others = any(other.config != case.config for other in later)
        session.selection.complete = job.is_reference and not others
        self.writer = writer  # of the log that `session` records into
        self.again = again  # the number of a repeated run; 0: it is none
        self.prefix = f"{case.name}/" if case.name else ""
        self.stored_weights = job.files.weights(case.start)
        self.stored_gradients = job.files.gradients(case.name)
        self.suited = Suited(job.folder)  # what the torch side has chosen
        self.is_suited = True  # as far as this run shows
        self._forward: Callable | None = None  # of the model that was called last
        self.notes: dict[str, object] = {}  # what the sidecar should say beside the usual
        if (case.start or "main") in self.suited.noise:
            self.notes["noise"] = self.suited.noise[case.start or "main"]
        if (case.name or "main") in self.suited.rates:
            self.notes["rates"] = self.suited.rates[case.name or "main"]
        self.extra: dict[str, dict[str, np.ndarray]] = {}  # stem -> a further small log
        self.data = _data(Path(request.data) / pair.name) if request.data else {}
        self.inputs = {f"{n}/{k}": v for n, arrays in self.data.items() for k, v in arrays.items()}
        if not request.data:
            inputs = pair.inputs(case, request.preset, request.seed)
            self.inputs = {k: rounded(v, request.stored_dtype) for k, v in inputs.items()}
        self.module = load_model_file(job, stored(dtype, request))
        if job.transplant:
            job.transplant.way.put()  # again: a model's file may have replaced some
        self.layout: Layout | SameLayout | None = SameLayout() if job.is_reference else None

    @cached_property
    def is_large(self) -> bool:
        """True for a model of which most optimizer steps are taken on given gradients."""
        return self.job.is_large(self.case)

    @property
    def chooses(self) -> bool:
        """True for a run that says what suits the model: the reference's, of its own values."""
        return self.job.is_reference and self.session.reference is None

    @property
    def data_preset(self) -> str:
        """The preset that steps 2 and 5 run."""
        return data_preset(self.pair, self.request.preset)

    def samples(self, part: str) -> dict[str, np.ndarray]:
        """Name -> array (N, ...) of a part of the pair's data: train, validation or test."""
        return part_of(self.data[SAMPLES], part)

    def log(self, key: str, values: object, class_name: str = "", whole: bool = False) -> None:
        """Log one array (or tensor) under this case's prefix; `whole`, however large it is."""
        if self.session.record is None:
            return
        if self.side.is_tensor(values):
            values = self.side.view(values)
        more = {"whole": True} if whole else {}
        self.session.record(self.prefix + key, np.asarray(values), **more)
        self.session.note_place(self.prefix + key, class_name)

    def log_as_reference(
        self, start: str, pairs: Iterable[tuple[str, object]], whole: bool = False
    ) -> None:
        """Log what `as_reference` makes of parameters, gradients or moments, behind `start`."""
        for name, values in self.as_reference(pairs):
            self.log(f"{start}{name}", values, whole=whole)

    def log_nested(self, key: str, values: object, whole: bool = False) -> object:
        """Log every tensor of nested outputs; keys are joined by '/'.

        whole   however large they are; these are the model's outputs, as the sidecar says
        Returns them; in teacher forcing the reference's values, since what follows is fed those.
        """

        def change(path, value):
            label = self.session.label(join_path((key, *path) if key else path) or "output")
            if whole:
                self.notes.setdefault("outputs", []).append(self.prefix + label)
            elif label == "loss":  # the model's; steps 3 and 4 log that of the pair's loss function
                label = "output/loss"
            self.log(label, value, whole=whole)
            given = self.reference(label)
            if given is None or not self.side.is_float(value):
                return value
            same = tuple(given.shape) == self.side.shape(value)
            return with_values(self.side, value, given) if same else value

        with self.session.at(self._forward if whole else None):
            return tree_map(values, change, self.side.is_tensor)

    def log_choice(self, key: str, scores: np.ndarray) -> np.ndarray:
        """Log which score is largest along the last axis, with its margin, as a discrete choice."""
        top = np.sort(scores, axis=-1)[..., -2:]
        choice = scores.argmax(axis=-1)
        self.log(f"{key}:scores", scores)
        self.log(f"{key}:margin", top[..., 1] - top[..., 0])
        self.log(key, choice)
        path = self.prefix + key
        self.session.seen.choices[path] = {"margin": f"{path}:margin", "scores": f"{path}:scores"}
        return choice

    def reference(self, key: str) -> np.ndarray | None:
        """Teacher forcing: the reference's value of a key of this case; else None."""
        if self.session.reference is None:
            return None
        return self.session.reference.get(self.prefix + key)

    def build(self, training: bool | None = None):
        """The case's model with the shared weights, in this run's precision and mode."""
        training = self.case.train if training is None else training
        found = None
        if not self.request.certify:
            found = building.of_blank(self, self._filled_blank)
        model, self.made = found or self._filled(self.construct())
        model.train() if training else model.eval()  # older Paddle's return None
        fix_recurrent_dropout(self.side, model, training)
        names = (name for name, _ in self.side.probed_modules(model))
        self.session.draws.own_sites = {self.session.rename(name) for name in names}
        building.note_constants(self, model)
        building.round_like_reference(self, model)
        return model

    def _filled(self, model):
        """The model that was built, its draws followed, with the shared weights in it.

        And name -> array of all of it that is not learned, as it was built.
        """
        model = follow(self.side, model)
        made = {name: values.copy() for name, values in self.side.unlearned(model)}
        building.leave_constants(self, made)
        self.load(model, self.start())
        return model, made

    def _filled_blank(self, model, blanks):
        """Return `_filled` of a model that was built blank; None where some of it still is."""
        found = self._filled(model)
        return None if blanks.left(found[0]) else found

    def construct(self):
        """The case's model as its file builds it."""
        noting = noting_makers(self.side.MODULE)
        with no_collections(), noting, self.session.unmoved(), heard():
            model = build_model(self.side, self.module, self.case.config)
        # What names no device is made there; what does, such as a FloatTensor, is moved.
        return self.side.on_gpu(model) if self.request.device == "gpu" else model

    def log_constants(self) -> None:
        """Log the buffers that two seeds build alike, as the last model was built with them.

        They are constants of the port; the reference's copies have taken their place since.
        """
        persistent = self._persistent(self.made)
        if not persistent or self.case.config in self.session.configs:
            return
        self.session.configs.append(self.case.config)
        for name, values in self._buffers_as_reference(building.alike(self, persistent)):
            self.log(f"{BUFFER}/{name}:built", values, f"{OWN} {BUFFER}")

    def buffers(self, model) -> dict[str, bytes]:
        """Name -> a hash of what is in it now, for `log_buffers`."""
        return {name: _hash(values) for name, values in self.side.unlearned(model)}

    def log_buffers(self, model, before: Mapping[str, bytes], path: str = "") -> None:
        """Log every buffer that is not what it was before.

        One that is no weight (non-persistent) may be a cache, which the other side need not have.
        """
        changed = {n: v for n, v in self.side.unlearned(model) if before.get(n) != _hash(v)}
        persistent = self._persistent(changed)
        for name, values in self._buffers_as_reference(persistent):
            self.log(f"{path}{BUFFER}/{name}", values, BUFFER)
        for name, values in changed.items():
            if name not in persistent:
                key = f"{path}{BUFFER}/{self.session.rename(name)}"
                self.log(key, _widest(values), f"{OWN} {BUFFER}")

    def _persistent(self, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return those buffers that are carried over with the weights."""
        if isinstance(self.layout, Layout):
            known = self.layout.carried()
        else:
            known = weights.load_owners(self.stored_weights)
        return {name: values for name, values in found.items() if name in known}

    def _buffers_as_reference(self, found: Mapping[str, np.ndarray]):
        for name, values in self.as_reference(found.items()):
            yield name, _widest(values)

    def start(self) -> dict[str, np.ndarray]:
        """The shared weights that the case starts from, under torch's names."""
        return self.job.states.load(self.stored_weights, may_be_empty=True)

    def torch_state(self, model) -> dict[str, np.ndarray]:
        """A model's state under torch's names and in its layout."""
        state = self.side.state(model)
        return self.layout.to_torch(state) if isinstance(self.layout, Layout) else state

    def load(self, model, state: Mapping[str, np.ndarray]) -> None:
        """Put torch-named weights into a model of this side, through the layout.

        In a float64 run the shared weights come with what float32 rounds of constants.  What
        arrived is read back out of the model once, for the certificate.
        """
        constants = self.job.files.constants(self.case.start)
        if self.dtype == "float64" and constants.is_file() and state is self.start():
            state = {**state, **self.job.states.load(constants)}
        if self.again:
            state = {name: beside(v, name, self.again) for name, v in state.items()}
        if self.layout is None:
            self.layout = self._layout_of(model)
            self.session.rename = self.layout.rename
            self.session.seen.converted += [
                self.prefix + name for name in self.layout.converted_modules()
            ]
        first = "read_back" not in self.notes
        if first and isinstance(self.layout, Layout):
            self.notes["certificate"] = self.layout.certificate()
            if isinstance(self.layout, LoadedLayout):
                self.notes["loader"] = self.layout.told()
            if self.request.certify:
                own = self.side.state(model)
                self.notes["paddle_to_torch"] = one_way_keys(self.layout, own)
                self.notes["hidden_rows"] = filled_padding_rows(self.layout, state)
        layout = self.layout
        values = layout.to_paddle(state, False) if isinstance(layout, Layout) else state
        self.side.load_state(model, values)
        if first:
            entries = ((k, self.side.array(v)) for k, v in model.state_dict().items())
            self.notes["read_back"] = changed_keys(layout, entries, state)
            self._count_parameters(model)

    def _count_parameters(self, model) -> None:
        """Tell the session how many parameters each probed module has."""
        names = [name for name, _ in self.side.probed_modules(model)]
        for name, count in own_parameters(self.side.owners(model), names).items():
            self.session.seen.modules[self.prefix + self.session.rename(name)] = count

    def _layout_of(self, model) -> Layout:
        """Return where the entries of this side's model come from: found once for models alike."""
        owners = weights.load_owners(self.stored_weights), self.side.owners(model)
        for layout in self.job.layouts:
            if (layout.torch_owners, layout.paddle_owners) == owners:
                return layout
        layout = layout_of(self.job, self.case, *owners)
        self.job.layouts.append(layout)
        return layout

    def tensors(self) -> dict[str, object]:
        """The inputs as tensors of this side, those that nest under a name each."""
        return {k: self.tensor(beside(v, k, self.again)) for k, v in self.inputs.items()}

    def tensor(self, values: np.ndarray):
        """An input as a tensor; a gradient with respect to it can be asked for where one is."""
        tensor = self.side.tensor(values)
        return self.side.watch(tensor) if self.job.gradients else tensor

    def no_gradients(self) -> AbstractContextManager:
        """A context without gradients, unless the model or its loss asks for some by itself."""
        return nullcontext() if self.job.gradients else self.side.no_grad()

    def of_forward(self, model, tensors: Mapping[str, object]) -> dict[str, object]:
        """The inputs that the model's forward names: not the labels, which the loss alone takes."""
        accepted = inspect.signature(model.forward).parameters
        return {key: value for key, value in tensors.items() if key.partition("/")[0] in accepted}

    def as_given(self, tensors: Mapping[str, object]) -> Mapping[str, object]:
        """The inputs as make_inputs nests them; samples of data do not nest."""
        return tensors if self.request.data else nested(tensors)

    def call(self, model, tensors: Mapping[str, object]):
        """The model's outputs; it gets the inputs that its forward names, not the labels."""
        self.session.running.clear()
        self._forward = type(model).forward  # made the outputs
        with self.drawing():
            return graphs.called(self, model)(**self.as_given(self.of_forward(model, tensors)))

    def unclipped(self) -> AbstractContextManager:
        """Inside, a float64 loss is that which its gradient is of, on both sides."""
        exact = self.job.exact if self.dtype == "float64" else None
        return exact.doing("unclip") if exact else nullcontext()

    def loss(self, outputs, tensors: Mapping[str, object]):
        """The pair's scalar loss; raises UserError where the model's file has none."""
        loss = function_of(self.module, "loss", "outputs", "inputs")
        with self.drawing():
            found = loss and loss(outputs, self.as_given(tensors))
        if not self.side.is_tensor(found) or math.prod(found.shape) != 1:
            file = str(self.pair.folder / self.pair.file(self.job.slot))
            if not loss:
                raise UserError(Kind.LOSS_MISSING(file=file))
            name, shape = type(found).__name__, list(getattr(found, "shape", ()))
            what = Kind.TYPE_AND_SHAPE(type=name, shape=str(shape)) if shape else name
            raise UserError(Kind.LOSS_NO_SCALAR(file=file, what=what))
        return found

    def losses(self, outputs, tensors: Mapping[str, object]) -> Mapping[str, object]:
        """The pair's `losses` by name; none where the model's file has none."""
        with self.drawing():
            losses = function_of(self.module, "losses", "outputs", "inputs")
            return losses(outputs, self.as_given(tensors)) if losses else {}

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Code of the pair runs: it draws from the tape; what it draws otherwise is noted."""
        before = self.side.random_state()
        mixed = self.request.autocast and self.dtype in HALF
        own = self.side.autocast(self.dtype, self.request.device) if mixed else nullcontext()
        with current().draws.from_tape(), own, heard():
            yield
        if self.side.random_state() != before:
            self.notes["untaped_draws"] = True

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

    def reference_parameter(self, group: str, name: str) -> np.ndarray | None:
        """Teacher forcing: the reference's value of a parameter in a group of keys; else None."""
        return self.layout.from_torch(name, lambda key: self.reference(f"{group}/{key}"))

    def progress(self, what: str) -> None:
        """Say which part of this run begins, for the check's progress bar, and what share is done.

        Of a whole training nobody knows the share: it may stop early.
        """
        if not self.request.progress:
            return
        job, done = self.job, None
        told = job.told[self.dtype] = job.told.get(self.dtype, -1) + 1
        if self.dtype in job.dtypes and told < job.parts and isinstance(self.request.task, Usual):
            done = (job.dtypes.index(self.dtype) + told / job.parts) / len(job.dtypes)
        line = json.dumps([self.pair.name, done, self.dtype, what])
        print(f"@progress {line}", flush=True)


def stored(dtype: str, request: RunRequest) -> str:
    """The precision that a run's model is built in."""
    return request.stored_dtype if dtype in HALF else dtype


def beside(values: np.ndarray, name: str, again: int) -> np.ndarray:
    """Return the next float32 of each value, to either side, for a repeated run; or the value.

    again   the number of the repeated run; 0: it is none, and all stay
    Whole numbers stay, since they may be flags or counts; so do infinities and other dtypes.
    """
    if not again or values.dtype != np.float32:
        return values
    drawn = np.random.default_rng([again, zlib.crc32(name.encode())])
    ends = drawn.choice(np.array([-np.inf, np.nan, np.inf], np.float32), values.shape)
    stays = np.isnan(ends) | (values == np.rint(values)) | ~np.isfinite(values)
    return np.where(stays, values, np.nextafter(values, ends))


def _hash(values: np.ndarray) -> bytes:
    return hashlib.sha256(contiguous(values)).digest()


def _widest(values: np.ndarray) -> np.ndarray:
    """Integers as int64: which of their types a buffer has is no result."""
    return values.astype(np.int64) if values.dtype.kind in "iub" else values


@lru_cache(maxsize=1)
def _data(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """Stem -> arrays of a model's data files; read once for all its seeds and precisions."""
    return {path.stem: load_arrays(path) for path in sorted(folder.glob("*.npz"))}
