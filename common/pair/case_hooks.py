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
from twincheck.common.system.reasons import Kind

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
    """Return the cases of steps 2 and 5, one for each seed; raises UserError without data."""
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
    """Return the path of a built-in preset's trained weights, which step 2 scores if it exists."""
    return pair.folder / f"{preset}.npz"


def data_entries(folder: Path) -> dict[str, int]:
    """Entries of the configuration that the data in a folder set, such as the vocabulary's size."""
    path = folder / ENTRIES_FILE
    return load_json(path) if path.is_file() else {}


def demand_data(pair: Pair) -> None:
    """Raise UserError for a pair without make_data."""
    if not hasattr(pair.case, "make_data"):
        raise UserError(Kind.DATA_NOT_MADE(model=pair.name))


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
        known = list(getattr(pair.case, "DATA", None) or [Kind.NONE()])
        told = {"path": str(path), "preset": preset, "model": pair.name, "known": known}
        raise UserError(Kind.DATA_READS_NO_FILE(**told))
    arrays = call_hook(pair, "make_data", function, config, seed)
    if not isinstance(arrays, dict) or not {"train", "test"} <= set(arrays):
        raise UserError(Kind.DATA_NO_DICT(hook=where))
    unknown = sorted(map(str, set(arrays) - {"train", "test", VALIDATION, TEXT}))
    if unknown:
        told = {"hook": where, "parts": unknown, "validation": VALIDATION}
        raise UserError(Kind.DATA_PARTS_UNKNOWN(**told))
    parts = {part: _part(where, part, values) for part, values in arrays.items()}
    if set(parts.get(TEXT, ())) not in (set(), {"values", "offsets"}):
        raise UserError(Kind.DATA_TEXT_REFUSED(hook=where, part=TEXT))
    train = parts["train"]
    for part in {"test", VALIDATION} & set(parts):
        other = parts[part]
        if set(train) != set(other):
            alone = sorted(set(train) ^ set(other))
            raise UserError(Kind.DATA_IN_ONE_PART(hook=where, names=alone, part=part))
        for name in train:
            if train[name].dtype != other[name].dtype:
                types = {"train": str(train[name].dtype), "other": str(other[name].dtype)}
                told = {"hook": where, "name": name, "part": part}
                raise UserError(Kind.DATA_TYPES_DIFFER(**told, **types))
    return parts


def _part(where: str, part: str, values: object) -> dict[str, np.ndarray]:
    if not isinstance(values, dict) or not values:
        told = {"hook": where, "part": part, "value": describe_value(values)}
        raise UserError(Kind.DATA_PART_NO_DICT(**told))
    arrays = {str(name): np.asarray(array) for name, array in values.items()}
    for name, array in arrays.items():
        told = {"hook": where, "name": f"{part}/{name}"}
        if array.dtype.kind not in "biuf":
            raise UserError(Kind.DATA_NO_NUMBERS(**told, dtype=str(array.dtype)))
        if array.ndim == 0 or array.shape[0] == 0:
            raise UserError(Kind.DATA_NO_SAMPLE(**told, shape=array.shape))
    if part != TEXT and len(set(map(len, arrays.values()))) > 1:
        counts = [Kind.DATA_COUNT(name=name, count=len(array)) for name, array in arrays.items()]
        raise UserError(Kind.DATA_COUNTS_DIFFER(hook=where, part=part, counts=counts))
    return arrays


def training(pair: Pair, config: dict, preset: str) -> dict[str, object]:
    """Return step 5's settings: DEFAULTS, updated with TRAIN[preset] or `optimizer` of case.py.

    Raises UserError where those are no set-up.
    """
    setup = getattr(pair.case, "TRAIN", {}).get(preset, getattr(pair.case, "optimizer", {}))
    if callable(setup):
        setup = call_hook(pair, "optimizer", setup, dict(config))
    where = f"{pair.folder / 'case.py'}: optimizer"
    if not isinstance(setup, dict):
        raise UserError(Kind.SETUP_NO_DICT(hook=where, value=describe_value(setup)))
    unknown = sorted(map(str, set(setup) - set(DEFAULTS)))
    if unknown:
        raise UserError(Kind.SETTINGS_UNKNOWN(where=where, unknown=unknown, known=list(DEFAULTS)))
    settings = DEFAULTS | setup

    def refused(key: str, allowed: str) -> UserError:
        told = {"where": where, "name": key, "value": repr(settings[key])}
        return UserError(Kind.SETTING_REFUSED(**told, allowed=allowed))

    for key, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
        if settings[key] not in known:
            raise refused(key, ", ".join(known))
    counts = [("epochs", 1), ("batch_size", 1), ("warmup_steps", 0)]
    counts += [] if settings["patience"] is None else [("patience", 1)]
    if type(settings["drop_last"]) is not bool:
        raise refused("drop_last", Kind.ANY_BOOLEAN())
    for key, least in counts:
        if type(settings[key]) is not int or settings[key] < least:
            raise refused(key, Kind.INTEGER_FROM(least=least))
    best = settings["best"]
    if not isinstance(best, tuple | list) or len(best) != 2 or best[0] not in BEST:
        raise refused("best", Kind.BEST_OF())
    for key in ("lr", "weight_decay", "clip_norm"):
        value = settings[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (key == "clip_norm" and value is None) and not (number and 0 <= value < np.inf):
            raise refused(key, Kind.NUMBER_FROM_0())
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
    """Call a function of case.py; an exception of it becomes a sentence with its line."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == pair.folder]
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        told = {"hook": hook_place(pair, name), "error": reason}
        if own:
            raise UserError(Kind.HOOK_FAILED_AT(**told, line=own[-1].lineno)) from error
        raise UserError(Kind.HOOK_FAILED(**told)) from error


def hook_place(pair: Pair, name: str) -> str:
    """The file and the function that a sentence is about."""
    return f"{pair.folder / 'case.py'}: {name}"


def describe_value(value: object) -> str:
    """Name the kind of a value, for a sentence."""
    return Kind.VALUE_OF_TYPE(type=type(value).__name__) if value is not None else "None"


def describe_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """The arrays' names, dtypes and shapes, for a sentence."""
    told = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in arrays.items())
    return told or Kind.NOTHING()
