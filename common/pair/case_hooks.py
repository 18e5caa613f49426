"""The functions of a case.py that steps 2 and 5 need: make_data, metric and optimizer.

Each is called through here and what it returns is checked: where it is wrong, a sentence names the
file, the function and the fault.  common/pair/pairs.py says what each takes and returns.
"""

import inspect
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from twincheck.common.pair.pairs import PERTURBED, Case, Pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.schedules import SCHEDULES
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import load_json

# The training set-up, where case.py does not say otherwise.
DEFAULTS = {
    "epochs": 3,
    "batch_size": 32,
    "optimizer": "adam",
    "lr": 1e-3,
    "schedule": "constant",  # after the warm-up
    "warmup_steps": 0,
    "weight_decay": 0.0,  # of adamw alone
    "clip_norm": None,  # the largest global norm of the gradients
    # Which epoch is the best; or ("smallest", NAME of a score), as of forecasts the mse.
    "best": ("largest", "accuracy"),
    "patience": None,  # epochs without a better one, after which the training stops early
    "drop_last": False,  # leave out batches that are not whole, in training and in scores
}
OPTIMIZERS = ("adam", "adamw", "sgd")
BEST = ("largest", "smallest")
CURVES = ("loss", "lr", "order")  # what step 5 logs of each step or epoch beside the scores
ENTRIES_FILE = "config.json"  # in a model's data folder: entries of its configuration
SOURCE_FILE = "source.json"  # in a model's data folder: the path of the file that was read
SAMPLES = "samples"  # stem of the data sets' file; TEXT is the stem of the documents' file
VALIDATION = "validation"  # a part that make_data may leave out
TEXT = "text"  # a part of make_data that is no data set: documents that step 2 pads


def data_preset(pair: Pair, preset: str) -> str:
    """The preset that steps 2 and 5 run: one with an entry of its own in case.py's DATA or TRAIN,
    else case.py's DATA_PRESET, else the one that was asked for."""
    tables = (getattr(pair.case, name, None) for name in ("DATA", "TRAIN"))
    if any(isinstance(table, dict) and preset in table for table in tables):
        return preset
    return getattr(pair.case, "DATA_PRESET", preset)


def reads_file(pair: Pair, preset: str) -> bool:
    """True where the data of a preset come from one of common/pair/sources."""
    return data_preset(pair, preset) in (getattr(pair.case, "DATA", None) or {})


def data_cases(pair: Pair, request: RunRequest) -> list[Case]:
    """What steps 2 and 5 run, once for each seed; raises UserError where the pair has no data."""
    preset = data_preset(pair, request.preset)
    if not reads_file(pair, preset):
        demand_data(pair)
    entries = data_entries(Path(request.data) / pair.name) if request.data else {}
    config = pair.config(preset) | entries
    trained = trained_file(pair, preset)
    # A training starts from those that are drawn; and what is stored is as torch has it.
    scored = request.data_weights == PERTURBED and request.framework("torch") == "torch"
    scored = scored and pair.built_in and trained.is_file()
    return [
        Case(
            f"seed_{seed}" if seed else "",
            config,
            weights=request.data_weights,
            trained=trained if scored else None,
            seed=seed,
        )
        for seed in range(request.seeds)
    ]


def trained_file(pair: Pair, preset: str) -> Path:
    """Where trained weights of a built-in preset are, if there are any: step 2 scores these."""
    return pair.folder / f"{preset}.npz"


def data_entries(folder: Path) -> dict[str, int]:
    """Entries of the configuration that the data in a folder set, such as the vocabulary's size."""
    path = folder / ENTRIES_FILE
    return load_json(path) if path.is_file() else {}


def demand_data(pair: Pair) -> None:
    """Raise UserError for a pair without make_data."""
    if not hasattr(pair.case, "make_data"):
        raise UserError(
            f"--model {pair.name}: nothing to compare in steps 2 and 5, since its case.py has no "
            'make_data(config, seed) -> {"train": {name: array}, "test": {name: array}}'
        )


def make_data(
    pair: Pair, preset: str, seed: int, path: Path | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """Part -> name -> array (N, ...), as case.py makes them.

    path    what --data says, for a make_data that takes `path`
    Raises UserError where the two sets are not there, empty, unlike each other, or not numbers.
    """
    demand_data(pair)
    config = pair.config(data_preset(pair, preset))
    where = hook_place(pair, "make_data")
    function = pair.case.make_data
    if "path" in inspect.signature(function).parameters:
        function = partial(function, path=path)
    elif path is not None:
        known = ", ".join(getattr(pair.case, "DATA", None) or {}) or "none"
        raise UserError(
            f"--data {path}: preset {preset} of {pair.name} reads no file (presets that do: "
            f"{known}), nor does its make_data take `path`"
        )
    arrays = call_hook(pair, "make_data", function, config, seed)
    if not isinstance(arrays, dict) or not {"train", "test"} <= set(arrays):
        raise UserError(f'{where} must return a dict with "train" and "test"')
    unknown = sorted(map(str, set(arrays) - {"train", "test", VALIDATION, TEXT}))
    if unknown:
        known = f'"train", "test" and "{VALIDATION}"'
        raise UserError(f"{where}: {', '.join(unknown)}: only {known} are read")
    parts = {part: _part(where, part, values) for part, values in arrays.items()}
    if set(parts.get(TEXT, ())) not in (set(), {"values", "offsets"}):
        raise UserError(f'{where}: "{TEXT}" must hold values and offsets of documents')
    train = parts["train"]
    for part in {"test", VALIDATION} & set(parts):
        other = parts[part]
        if set(train) != set(other):
            alone = ", ".join(sorted(set(train) ^ set(other)))
            raise UserError(f'{where}: {alone}: in one of "train" and "{part}" alone')
        for name in train:
            if train[name].dtype != other[name].dtype:
                types = f'{train[name].dtype} in "train", {other[name].dtype} in "{part}"'
                raise UserError(f"{where}: {name} is {types}; make them the same")
    return parts


def _part(where: str, part: str, values: object) -> dict[str, np.ndarray]:
    if not isinstance(values, dict) or not values:
        raise UserError(f'{where}: "{part}" must be a dict of arrays, not {describe_value(values)}')
    arrays = {str(name): np.asarray(array) for name, array in values.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise UserError(f"{where}: {part}/{name} is {array.dtype}, not numbers")
        if array.ndim == 0 or array.shape[0] == 0:
            raise UserError(f"{where}: {part}/{name} holds no sample: its shape is {array.shape}")
    if part != TEXT and len(set(map(len, arrays.values()))) > 1:
        counts = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise UserError(f"{where}: {part}: not as many samples everywhere: {counts}")
    return arrays


def training(pair: Pair, config: dict, preset: str) -> dict[str, object]:
    """How step 5 trains: DEFAULTS, updated with case.py's TRAIN[preset] or its `optimizer`.

    Raises UserError where those are no set-up.
    """
    setup = getattr(pair.case, "TRAIN", {}).get(preset, getattr(pair.case, "optimizer", {}))
    if callable(setup):
        setup = call_hook(pair, "optimizer", setup, dict(config))
    where = f"{pair.folder / 'case.py'}: optimizer"
    if not isinstance(setup, dict):
        raise UserError(f"{where} must be a dict, or return one, not {describe_value(setup)}")
    unknown = sorted(map(str, set(setup) - set(DEFAULTS)))
    if unknown:
        raise UserError(f"{where}: unknown {', '.join(unknown)}; known: {', '.join(DEFAULTS)}")
    settings = DEFAULTS | setup
    for key, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
        if settings[key] not in known:
            raise UserError(f"{where}: {key} is {settings[key]!r}; allowed: {', '.join(known)}")
    counts = [("epochs", 1), ("batch_size", 1), ("warmup_steps", 0)]
    counts += [] if settings["patience"] is None else [("patience", 1)]
    if type(settings["drop_last"]) is not bool:
        raise UserError(f"{where}: drop_last is {settings['drop_last']!r}; allowed: True, False")
    for key, least in counts:
        if type(settings[key]) is not int or settings[key] < least:
            raise UserError(
                f"{where}: {key} is {settings[key]!r}; allowed: an integer from {least}"
            )
    best = settings["best"]
    if not isinstance(best, tuple | list) or len(best) != 2 or best[0] not in BEST:
        raise UserError(f'{where}: best is {best!r}; allowed: ("largest" or "smallest", NAME)')
    for key in ("lr", "weight_decay", "clip_norm"):
        value = settings[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (key == "clip_norm" and value is None) and not (number and 0 <= value < np.inf):
            raise UserError(f"{where}: {key} is {value!r}; allowed: a number from 0")
    return settings


def best_score(settings: Mapping, scores: Mapping[str, float]) -> tuple[str, str]:
    """("largest" or "smallest", name) of the score that says which epoch is the best.

    Where the one that is named is not among the scores, the mse of a forecast, or the first.
    """
    kind, name = settings["best"]
    if name in scores:
        return kind, name
    return ("smallest", "mse") if "mse" in scores else (kind, next(iter(scores)))


def call_hook(pair: Pair, name: str, function, *arguments):
    """What a function of case.py returns; an exception of it becomes a sentence with its line."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == pair.folder]
        line = f", line {own[-1].lineno}" if own else ""
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"{hook_place(pair, name)} failed{line}: {reason}") from error


def hook_place(pair: Pair, name: str) -> str:
    """The file and the function that a sentence is about."""
    return f"{pair.folder / 'case.py'}: {name}"


def describe_value(value: object) -> str:
    """What kind of value it is, for a sentence."""
    return f"a {type(value).__name__}" if value is not None else "None"


def describe_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """The arrays' names, dtypes and shapes, for a sentence."""
    return ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in arrays.items()) or "nothing"
