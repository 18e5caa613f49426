"""Pairs: a folder with case.py, torch_model.py and paddle_model.py, built-in or the user's own.

case.py, NumPy only:

    CONFIGS      {preset: configuration}, both dicts; "default" must be there
    make_inputs  (config, seed) -> {name: array}; integers stay, floats follow the run's dtype;
                 where forward takes them so, lists and dicts of arrays (common/pair/nested.py)
    RENAME       {Paddle name: torch name} of modules or parameters, where they differ; optional
    PADDING_ROWS {torch name of a parameter: row} that the loss may depend on but that gets no
                 gradient by intent, where no layer's padding_idx says so; optional

    Steps 2 and 5 need make_data; what comes after it may be left out (common/pair/case_hooks.py):

    make_data    (config, seed) -> {"train": {name: array (N, ...)}, "test": {...}}: the same names
                 in both, what forward and loss take; the labels under "labels".  It runs in the
                 check's process, once for both sides.  It may give "validation" too, and may
                 take `path`, what --data says.
    DATA         {preset: what it reads}: presets whose data come from a file (common/pair/sources)
    metric       (outputs, inputs) -> {name: float} over the whole test set, arrays: outputs by
                 their keys joined by '/', those with the batch axis; inputs are make_data's "test".
                 By default accuracy and macro-F1 of `logits` against integer `labels`; of language
                 models accuracy of the next token and bits per token; of `predictions` against
                 `labels` of their shape, both floats, a forecast's mae, mse, rse, corr and more.
                 A model's one tensor is logits or predictions, as the labels say.
    optimizer    a dict, or (config) -> dict: epochs, batch_size, optimizer (adam, adamw, sgd), lr,
                 schedule (constant, linear, cosine, type1, type2), warmup_steps, weight_decay,
                 clip_norm, best ("largest" or "smallest", the score that the best epoch has),
                 patience (epochs without a better one, then it stops early), drop_last (batches
                 that are not whole); by default Adam at 1e-3, constant, 3 epochs of batches of 32,
                 the largest accuracy or the smallest mse, to the end
    TRAIN        {preset: such a dict}, which is used instead of `optimizer`
    TARGETS      {preset: {"source": text, "test_samples": number, "scores": {name: (value,
                 deviation)}}}: published numbers
    DATA_PRESET  the preset that steps 2 and 5 run, where it is not --preset; one that has an entry
                 in DATA, or in a dict TRAIN, is run as it is

    For --agree DATA (extras/agreement/examples.py, choosing.py), all optional:

    read_example (path) -> {input: array of one example}: reads and prepares a file of a folder
    read_text    (line) -> {input: array of one example}, of a line of text
    agreement    (outputs) -> {name: array}: scores (B, ..., classes), or chosen integers (B, ...)

    Of published checkpoints (--weights FOLDER, common/weights/checkpoint.py), all optional:

    published    (config.json) -> configuration; without it the preset's, updated with the file's
    published_inputs (configuration, train) -> keywords for make_inputs
    IGNORED_KEYS {regular expression: why} of entries that a file may hold and the model does not
    publish      (configuration) -> entries of the config.json that twincheck converter writes

    Where the libraries' own loaders carry the weights (common/sides/library_loader.py):

    load         "from_pretrained", of the library's model in what `build` returns; or (model,
                 folder) -> None, the model filled, or another model.  A model file's own `load`
                 counts for its side, and torch_model.py's `save` (model, folder) writes the folder.

torch_model.py and paddle_model.py (and candidate_model.py, where --candidate and --against name one
framework):

    build        (config) -> nn.Module or nn.Layer; forward takes the inputs by keyword; outputs
                 nest (tensor, dict, list, tuple, dataclass)
    loss         (outputs, inputs) -> scalar; steps 3, 4 and 5 need it

NumPy only: both workers and the check read a pair through here.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import numpy as np

from twincheck.common.pair.nested import flat
from twincheck.common.system.checkout import FAKE_DATA, FAKE_DATA_SEED, ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES, framework_of
from twincheck.common.system.interpreters import interpreter
from twincheck.common.system.json_file import load_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import did_you_mean

# What --weights takes beside a checkpoint (common/weights/noise.py).
TRAINED_LIKE, PERTURBED = WORDS = ("trained-like", "perturbed")
# What --mode takes: steps 1, 3 and 4 run a model in these.
EVAL, TRAIN, BOTH = MODES = ("eval", "train", "both")
EDGES = "edges"  # the case of varied inputs that step 1 adds
SAME = "the same function"  # of a model's two modes
MODELS = ROOT / "common" / "models"
CANDIDATE = "candidate_model.py"  # of a pair that compares two files of one framework
NO_FILES = {"__pycache__", ".git"}  # folders that hold none of a pair's


RECORD = ".new.json"  # in a pair's folder: what `twincheck new` was given


def own_folder(side: str) -> str:
    """The folder in a pair's that has links to a side's files: relative paths lead from there."""
    return f"of_{side}"


def is_checkpoint(weights: str | None) -> bool:
    """Return whether --weights names a file or a folder: neither left out nor one of WORDS."""
    return weights is not None and weights not in WORDS


@dataclass(frozen=True)
class Case:
    """One configuration of a pair that a step runs: a head, with inputs and a kind of weights."""

    name: str  # the first part of its keys in the logs; "" for a pair's only case
    config: dict
    inputs: dict = field(default_factory=dict)  # keywords for make_inputs
    weights: str = "initial"  # "initial" state under the seed, or PERTURBED with noise
    gain: float = 1.0  # of trained-like weights: a factor of all matrices
    train: bool = False  # run in train mode, with dropout from the tape
    like: str | None = None  # of what a check adds, for the other mode or EDGES: the case it is of
    seed: int = 0  # added to --seed
    decode: int = 0  # so many of the last tokens are fed one by one, with a cache: step 1 alone
    stored: bool = True  # its inputs are read from fake_data/, where they are stored there
    trained: Path | None = None  # the file of weights that it has instead, which were trained

    @property
    def edges(self) -> bool:
        """Return whether its inputs are varied (common/sides/edges.py)."""
        return self.name == EDGES and self.like is not None

    @property
    def start(self) -> str:
        """The case whose weights this one starts from: itself, or what it is the other mode of."""
        return self.name if self.like is None else self.like


@dataclass(frozen=True)
class Pair:
    """A pair and its case.py."""

    name: str
    folder: Path
    case: ModuleType
    published: dict | None = None  # a checkpoint's configuration and inputs
    backends: tuple[str, str] = SIDES  # what computes the reference's side and the candidate's

    @property
    def built_in(self) -> bool:
        """True for the pairs that come with the workbench."""
        return self.folder.parent == MODELS

    @property
    def hides_built_in(self) -> bool:
        """True for a user's pair that is called as one that comes with the workbench."""
        return not self.built_in and self.name in built_in_models()

    @property
    def model(self) -> str:
        """Return what --model takes for this pair: a built-in name, or the path of its folder."""
        return self.name if self.built_in else str(self.folder)

    def of_checkpoint(self, folder: str | None) -> "Pair":
        """Return the pair with the configuration that the check wrote of a checkpoint, if any."""
        written = load_json(Path(folder) / f"{self.name}.json") if folder else {}
        if "config" not in written:
            return self
        if not isinstance(written["config"], dict) or not isinstance(written.get("inputs"), dict):
            raise UserError(Kind.PAIR_CONFIGURATION_REFUSED(folder=folder, model=self.name))
        return replace(self, published=written)

    def files(self) -> list[Path]:
        """List the pair's files, and those in folders that its links lead to.

        Results, caches and environments are none; a folder that a link puts into itself ends there.
        """
        found: list[Path] = []
        waiting = [(self.folder, {os.path.realpath(self.folder)})]
        while waiting:
            folder, above = waiting.pop()
            left_out = NO_FILES | ({"log"} if folder == self.folder else set())
            for path in folder.iterdir():
                if path.is_file():
                    found.append(path)
                elif path.is_dir() and path.name not in left_out:
                    real = os.path.realpath(path)
                    if real not in above and not (path / "pyvenv.cfg").is_file():
                        waiting.append((path, above | {real}))
        return sorted(found)

    def config(self, preset: str) -> dict:
        """The preset's configuration; raises UserError that lists the presets."""
        if preset not in self.case.CONFIGS:
            known = sorted(map(str, self.case.CONFIGS))
            told = {"preset": preset, "known": known, "meant": did_you_mean(preset, known)}
            raise UserError(Kind.PRESET_UNKNOWN(model=self.name, **told))
        return dict((self.published or {}).get("config", self.case.CONFIGS[preset]))

    def cases(
        self, preset: str, weights: str | None = None, mode: str = BOTH, decode: bool = False
    ) -> list[Case]:
        """Return a step's cases: the preset's CASES, or the preset alone with weights of a file.

        weights  what --weights says
        mode     one of MODES: in train mode with what a row's `when_training` changes of config and
                 inputs; for both modes a user's pair has one case more, TRAIN
        decode   also the rows that decode with a cache, and a user's pair's EDGES, as step 1 alone
                 does; none in train mode
        A user's pair without CASES is run a second time with perturbed weights: while biases or
        position embeddings are zero, as initialised, many faults do not show.
        """
        config, train = self.config(preset), mode == TRAIN
        table = getattr(self.case, "CASES", {}).get(preset) or {}
        cases = self._in_one_mode(config, table, weights, train, decode)
        if mode == EVAL and table:
            cases = [case for case in cases if not case.train] or cases
        if mode == BOTH and not self.built_in and not any(case.train for case in cases):
            # Noise shows more than the first values, and what the first case shows decides.
            same = [case for case in cases if case.config == config]
            like = next((case for case in same if case.weights == PERTURBED), cases[0])
            row = {"train": True, **table.get(like.name, {"inputs": like.inputs})}
            other = replace(self._case(TRAIN, config, row, True), stored=like.stored)
            cases.append(replace(other, weights=like.weights, gain=like.gain, like=like.name))
        plain = [case for case in cases if not (case.train or case.decode)]
        if decode and plain and not (self.built_in or EDGES in table):
            like = next((case for case in plain if case.weights == PERTURBED), plain[0])
            cases.append(replace(like, name=EDGES, like=like.name))
        return cases

    def _in_one_mode(
        self, config: dict, table: dict, weights: str | None, train: bool, decode: bool
    ) -> list[Case]:
        if self.published:
            return [Case("", config, self.published["inputs"], train=train, stored=False)]
        if table and not is_checkpoint(weights):
            left_out = {n for n, row in table.items() if "decode" in row and (train or not decode)}
            kept = {name: row for name, row in table.items() if name not in left_out}
            return [self._case(name, config, row, train) for name, row in kept.items()]
        cases = [Case("", config, train=train)]
        if weights is None and not self.built_in:
            cases.append(Case(PERTURBED, config, weights=PERTURBED, train=train))
        return cases

    @staticmethod
    def _case(name: str, config: dict, row: dict, train: bool) -> Case:
        other = row.get("when_training", {}) if train else {}
        return Case(
            name,
            config | row.get("config", {}) | other.get("config", {}),
            row.get("inputs", {}) | other.get("inputs", {}),
            row.get("weights", "initial"),
            row.get("gain", 1.0),
            train or row.get("train", False),
            decode=row.get("decode", 0),
            stored="inputs" not in other,
        )

    def inputs(self, case: Case, preset: str, seed: int) -> dict[str, np.ndarray]:
        """The case's inputs, flat: from fake_data/ where they are stored there, else case.py's."""
        stored = FAKE_DATA / f"{self.name}.npz"
        from_file = self.built_in and preset == "default" and seed == FAKE_DATA_SEED
        if from_file and case.stored and stored.is_file():
            prefix = f"{case.name}/"
            found = read_npz(stored, text=("sha256",)).items()
            inputs = {key[len(prefix) :]: array for key, array in found if key.startswith(prefix)}
            if inputs:
                return inputs
        return self.make_inputs(case, seed)

    def make_inputs(self, case: Case, seed: int) -> dict[str, np.ndarray]:
        """The inputs that case.py makes, flat; UserError where they are no arrays by name."""
        where = str(self.folder / "case.py")
        inputs = self.case.make_inputs(case.config, seed, **case.inputs)
        if not isinstance(inputs, dict) or not inputs:
            raise UserError(Kind.INPUTS_NO_DICT(case=where))
        try:
            inputs = flat(inputs)
        except ValueError as error:
            raise UserError(Kind.INPUTS_REFUSED(case=where, reason=str(error))) from None
        for key, values in inputs.items():
            if values.dtype.kind not in "biufc":
                told = {"case": where, "name": key, "dtype": str(values.dtype)}
                raise UserError(Kind.INPUT_NO_NUMBERS(**told))
        return inputs

    def side(self, side: str) -> ModuleType:
        """The model's module of a side, reference or candidate; imports its framework."""
        path = self.folder / self.file(side)
        if not path.is_file():
            raise UserError(Kind.PAIR_WITHOUT_FILE(model=str(self.folder), file=path.name))
        return _load(path)

    @property
    def pythons(self) -> dict[str, str]:
        """Side -> the Python that `twincheck new` was given for it, which the pair remembers."""
        path = self.folder / RECORD
        told = load_json(path).get("pythons", {}) if path.is_file() else {}
        if not isinstance(told, dict) or not all(isinstance(one, str) for one in told.values()):
            raise UserError(Kind.PYTHONS_REFUSED(path=str(path)))
        return told

    def working_folder(self, side: str) -> Path | None:
        """Return the folder of links in which a side's model runs; None where there is none."""
        own = self.folder / own_folder(self.file(side).removesuffix("_model.py"))
        return own if own.is_dir() else None

    def between(self, backends: tuple[str, str]) -> "Pair":
        """Return the pair with other backends; raises UserError where these cannot be compared."""
        against, candidate = map(framework_of, backends)
        asked = dict(zip(("against", "candidate"), backends, strict=True))
        if against == "paddle" and candidate == "torch":
            raise UserError(Kind.WEIGHTS_GO_NOT_BACK(**asked))
        pair = replace(self, backends=backends)
        if backends[0] == backends[1] and not (self.folder / CANDIDATE).is_file():
            raise UserError(Kind.CANDIDATE_MISSING(**asked, file=str(self.folder / CANDIDATE)))
        return pair

    def file(self, side: str) -> str:
        """The name of a side's model file."""
        against, candidate = map(framework_of, self.backends)
        if side == SIDES[0]:
            return f"{against}_model.py"
        another = against == candidate and (self.folder / CANDIDATE).is_file()
        return CANDIDATE if another else f"{candidate}_model.py"


def chosen_cases(cases: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """The cases that --case names, or all where it names none; a pair's only case is `main`.

    Raises UserError that lists the cases for a name that none has.
    """
    known = [case.name or "main" for case in cases]
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known)
            raise UserError(Kind.CASE_UNKNOWN(case=name, known=known, meant=meant))
    return [case for case in cases if not names or (case.name or "main") in names]


def built_in_models() -> list[str]:
    """Names of the built-in pairs, in the order of the tables."""
    return sorted(
        (path.parent.name for path in MODELS.glob("*/case.py")),
        key=lambda name: (name != "reformer", name),
    )


def folder_of(model: str) -> Path:
    """Return the folder that a word names: a pair's here, else the built-in one of that name."""
    here = Path(model)
    is_built_in = model in built_in_models() and not (here / "case.py").is_file()
    return MODELS / model if is_built_in else here


def load_pair(model: str) -> Pair:
    """The pair of a folder's path or of a built-in name; raises UserError where it is neither."""
    names, folder = built_in_models(), folder_of(model)
    if not (folder / "case.py").is_file():
        if folder.is_dir():
            raise UserError(Kind.PAIR_WITHOUT_CASE(model=model))
        meant = did_you_mean(model, names)
        raise UserError(Kind.PAIR_MISSING(model=model, names=names, meant=meant))
    folder = folder.resolve()
    pair = Pair(folder.name, folder, _load(folder / "case.py"))
    for wanted in ("CONFIGS", "make_inputs"):
        if not hasattr(pair.case, wanted):
            raise UserError(Kind.PAIR_DEFINES_NOT(case=str(folder / "case.py"), name=wanted))
    return pair


def python_for(side: str, chosen: str | None, pairs: Sequence[Pair]) -> str:
    """The path of the Python that runs a side of pairs: as chosen, else as they were made with.

    Raises UserError where pairs differ in it, or it cannot run the side.
    """
    made = {} if chosen else {pair.pythons.get(side): pair for pair in pairs}
    if len(made) > 1:
        told = [(pair.name, one or Kind.THIS_PYTHON()) for one, pair in made.items()]
        told = [Kind.PAIR_OF_PYTHON(model=name, python=one) for name, one in told]
        raise UserError(Kind.PYTHONS_DIFFER(pairs=told, side=side))
    for one, pair in made.items():
        if one and not Path(one).exists():
            raise UserError(Kind.PYTHON_IS_GONE(model=pair.name, python=one, side=side))
    return interpreter(side, chosen or next(iter(made), None))


def load_pairs(models: list[str], backends: tuple[str, str] = SIDES) -> list[Pair]:
    """The pairs of `--model` options, between these backends; `all` is every built-in one."""
    every = [str(MODELS / name) for name in built_in_models()]
    names = [name for model in models for name in (every if model == "all" else [model])]
    loaded = {pair.folder: pair for pair in map(load_pair, names)}
    pairs = [pair.between(backends) for pair in loaded.values()]
    folders: dict[str, Path] = {}
    for pair in pairs:
        if folders.setdefault(pair.name, pair.folder) != pair.folder:
            told = {"model": str(pair.folder), "name": pair.name}
            raise UserError(Kind.PAIR_CALLED_AS_ANOTHER(**told))
    return pairs


def _load(path: Path) -> ModuleType:
    """A file of a pair as a module."""
    folder = path.parent
    if folder.parent == MODELS:
        return importlib.import_module(f"twincheck.common.models.{folder.name}.{path.stem}")
    name = f"pair_{folder.name}_{path.stem}"
    if getattr(sys.modules.get(name), "__file__", "") == str(path):
        return sys.modules[name]
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:  # else who asks again gets the half of it
        del sys.modules[name]
        raise
    return module
