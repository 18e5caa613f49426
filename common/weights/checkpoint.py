"""A checkpoint prepared for the workers: its configuration, and its weights as a torch-named .npz.

    work/.published/MODEL.json   {"config": …, "inputs": …}; {} where no config.json is there
    work/.published/MODEL.npz    torch's names and layout

The check's process reads the checkpoint (common/weights/read.py); a worker needs NumPy and its
framework to read these.  Which entries a model has, what is tied and which layers own them is asked
of one short process a side: it builds the model and writes its owners.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.pairs import EVAL, TRAIN, Pair
from twincheck.common.pair.request import FIRST, RunRequest
from twincheck.common.pair.task import Describe
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.layout import Layout
from twincheck.common.weights.read import CheckpointFiles, Stored, find, read
from twincheck.common.weights.states import check_state, load_owners, save_state

FOLDER = ".published"
_SHOWN = 3  # names in a note; the certificate has all


@dataclass
class Checkpoint:
    """One model's checkpoint, and what a reader should know of it."""

    files: CheckpointFiles
    config: dict | None = None  # the model's, where config.json says it
    published: dict = field(default_factory=dict)  # config.json itself
    inputs: dict = field(default_factory=dict)  # keywords for make_inputs
    stored: Stored | None = None
    state: Mapping[str, np.ndarray] = field(default_factory=dict)  # torch's names and layout
    owners: dict[str, dict[str, Owner]] = field(default_factory=dict)  # side -> key -> Owner
    layout: Layout | None = None
    ignored: dict[str, str] = field(default_factory=dict)  # key -> why it is passed over
    filled: dict[str, str] = field(default_factory=dict)  # key -> the name it was stored under

    @property
    def notes(self) -> list[str]:
        """Sentences for the reader: what was read, passed over and filled in."""
        files, stored = self.files, self.stored
        notes = [Kind.WEIGHTS_READ(path=str(files.path))]
        if stored is not None:
            told = {"form": stored.kind, "count": len(stored.state)}
            told["dtypes"] = sorted({values.dtype.name for values in stored.state.values()})
            told["layout"] = Kind.PADDLES() if stored.paddle else Kind.TORCHS()
            told["shards"] = Kind.OF_SHARDS(count=stored.shards) if stored.shards else ""
            notes = [Kind.WEIGHTS_READ_AS(path=str(files.path), **told)]
        if self.config is not None:
            head = Kind.WITH_HEAD(head=self.config["head"]) if "head" in self.config else ""
            notes.append(Kind.CONFIGURATION_READ(path=str(files.config), head=head))
        if files.passed_over:
            notes.append(Kind.WEIGHTS_NOT_READ(files=list(files.passed_over)))
        if stored is not None and stored.widened:
            notes.append(Kind.WEIGHTS_WIDENED(count=len(stored.widened)))
        for reason in dict.fromkeys(self.ignored.values()):
            keys = [key for key, why in self.ignored.items() if why == reason]
            notes.append(Kind.WEIGHTS_PASSED_OVER(keys=_some(keys), reason=reason))
        notes += [Kind.WEIGHT_FILLED(key=key, other=one) for key, one in self.filled.items()]
        arrays = self.state.items()
        not_finite = [k for k, v in arrays if v.dtype.kind == "f" and not np.isfinite(v).all()]
        if not_finite:
            notes.append(Kind.WEIGHTS_NOT_FINITE(keys=_some(not_finite)))
        return notes


def _some(keys: Sequence[str]) -> str:
    some, more = ", ".join(keys[:_SHOWN]), len(keys) - _SHOWN
    return Kind.AND_MORE(some=some, count=more) if more > 0 else some


def configured(pair: Pair, weights: str, preset: str, train: bool) -> tuple[Pair, Checkpoint]:
    """The pair with the checkpoint's own configuration, where a config.json is there.

    The keywords for make_inputs are those of the preset's only case (but not the default preset's),
    else what case.py's `published_inputs` says.  Raises UserError for what names no checkpoint, and
    for a configuration that no model can be built from.
    """
    checkpoint = Checkpoint(find(weights))
    preset_config = pair.config(preset)
    path = checkpoint.files.config
    if path is None:
        return pair, checkpoint
    published = checkpoint.published = load_json(path)
    hook = getattr(pair.case, "published", None)
    if "head" in published or hook is None:  # a configuration of our own is taken as it is
        checkpoint.config = preset_config | published
    else:
        checkpoint.config = _from_hook(pair, path, hook, published)
    table = getattr(pair.case, "CASES", {}).get(preset, {}) if preset != "default" else {}
    hook = getattr(pair.case, "published_inputs", None)
    if len(table) == 1:
        checkpoint.inputs = pair.cases(preset, mode=TRAIN if train else EVAL)[0].inputs
    elif hook is not None:
        checkpoint.inputs = _from_hook(pair, path, hook, checkpoint.config, train)
    published = {"config": checkpoint.config, "inputs": checkpoint.inputs}
    return dataclasses.replace(pair, published=published), checkpoint


def _from_hook(pair: Pair, path: Path, hook: Callable, *arguments) -> dict:
    """The dict that a function of case.py returns for a config.json."""
    try:
        entries = hook(*arguments)
    except (ValueError, KeyError, TypeError) as error:
        told = {"path": str(path), "model": pair.name, "reason": str(error)}
        raise UserError(Kind.PUBLISHED_REFUSED(**told)) from None
    if not isinstance(entries, dict):
        case = str(pair.folder / "case.py")
        raise UserError(Kind.PUBLISHED_NO_DICT(case=case, hook=hook.__name__))
    return entries


def fit(
    pair: Pair,
    checkpoint: Checkpoint,
    describe: Callable[[str], dict],
    both: bool = False,
) -> None:
    """Read the weights and bring them to the torch model's names and layout.

    describe   side -> key -> Owner of that side's model
    both       ask both sides in any case, for the layout
    Raises UserError with both lists where they are not the model's.
    """
    option = checkpoint.files.option
    stored = checkpoint.stored = read(checkpoint.files)
    sides = SIDES if stored.paddle or both else ("torch",)
    checkpoint.owners = {side: describe(side) for side in sides}
    case = pair.case
    if len(sides) == 2:
        checkpoint.layout = Layout(
            *checkpoint.owners.values(), getattr(case, "RENAME", {}), getattr(case, "convert", None)
        )
    owners = checkpoint.owners["paddle" if stored.paddle else "torch"]
    ignored = getattr(case, "IGNORED_KEYS", {})
    names = []
    for key in stored.state:
        reason = next((why for pattern, why in ignored.items() if re.search(pattern, key)), "")
        if reason and key not in owners:
            checkpoint.ignored[key] = reason
        else:
            names.append(key)
    checkpoint.filled = tied_names(names, owners)
    sources = {key: key for key in names} | checkpoint.filled
    state = {key: stored.state[source] for key, source in sources.items()}
    check_state(f"{option} ({checkpoint.files.path.name})", state, owners)
    if stored.paddle:
        state = checkpoint.layout.to_torch(state)
        fill_in(state, checkpoint.owners["torch"])
        check_state(option, state, checkpoint.owners["torch"])
    checkpoint.state = {key: state[key] for key in checkpoint.owners["torch"]}


def fill_in(state: dict[str, np.ndarray], owners: Mapping[str, Owner]) -> dict[str, str]:
    """Add a tied tensor's further names where the file has it under one; added key -> that name."""
    filled = tied_names(state, owners)
    state |= {key: state[source] for key, source in filled.items()}
    return filled


def tied_names(names: Collection[str], owners: Mapping[str, Owner]) -> dict[str, str]:
    """A tied tensor's names that are not among these -> the first of its names that is."""
    stored_as: dict[str, str] = {}
    for key, owner in owners.items():
        if key in names:
            stored_as.setdefault(owner.same_as, key)
    return {
        key: stored_as[owner.same_as]
        for key, owner in owners.items()
        if key not in names and owner.same_as in stored_as
    }


def describe(
    side: str,
    pair: Pair,
    python: str,
    preset: str,
    work: Path,
    cases: tuple[str, ...] = (),
) -> dict[str, Owner]:
    """Key -> Owner of a side's model, which a process of that side builds.

    cases   whose model it is, the first of them; by default of the preset
    Raises UserError in that process's own words where it cannot.
    """
    folder = work / FOLDER / side / pair.name
    published = str(work / FOLDER) if (work / FOLDER / f"{pair.name}.json").is_file() else None
    told = {"published": published, "cases": cases, "task": Describe()}
    request = RunRequest(pair.model, preset, **told)
    run_side(side, python, request, folder / "request.json")
    return load_owners(ResultFolder(folder).owners())


def run_side(side: str, python: str, request: RunRequest, path: Path, on_progress=None) -> None:
    """Run one request in a process of a side; UserError with its own sentence where it fails."""
    with WorkerProcess(python, FIRST.format(side), on_progress) as worker:
        worker.ask(request, path)
        worker.finish()


def prepare(
    pair: Pair,
    weights: str,
    preset: str,
    train: bool,
    pythons: Mapping[str, str],
    work: Path,
    both: bool = False,
) -> tuple[Pair, Checkpoint]:
    """Read a checkpoint for a pair and write what the workers need of it into `work`.

    pythons   side -> the Python that runs it; without torch (its logs were brought, and with them
              the weights) only the configuration is read.
    Returns the pair with the checkpoint's configuration.
    """
    pair, checkpoint = configured(pair, weights, preset, train)
    (work / FOLDER).mkdir(exist_ok=True)
    write_json(work / FOLDER / f"{pair.name}.json", pair.published or {})
    if "torch" in pythons:

        def owners(side: str) -> dict[str, Owner]:
            return describe(side, pair, pythons[side], preset, work)

        fit(pair, checkpoint, owners, both)
        save_state(work / FOLDER / f"{pair.name}.npz", checkpoint.state)
    return pair, checkpoint
