"""A library's own loader as the carrier of the weights: case.py's `load`.

    load = "from_pretrained"     in case.py: the library's model in ours, by its class's own
    load(model, folder)          in case.py, or for one side in its model's file: puts the folder's
                                 weights into the model that `build` has made, or returns another
    save(model, folder)          in torch_model.py: writes that folder; by default the library's own
                                 save_pretrained does, or else config.json and model.safetensors

The torch side writes folders with marks (common/weights/loaded.py) and with the weights of each
case, and both sides read them, each with its own loader.  A run then goes on with the model that
`build` makes and the values that the loader has put into its own: so its float64 run starts from
the very values that its loader read, although most loaders make float32 whatever they are told.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.pair.request import PHASES
from twincheck.common.sides.model_file import load_model_file
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import framework_of
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.reasons import Kind
from twincheck.common.weights import states as weights
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.layout import Layout
from twincheck.common.weights.loaded import (
    Loaded,
    LoadedLayout,
    read_marks,
    tie_problems,
    unloaded,
)
from twincheck.common.weights.marks import PASSES, Marks
from twincheck.common.weights.round_trip import same_bits

FROM_PRETRAINED, SAVE_PRETRAINED = "from_pretrained", "save_pretrained"
# Entries of a configuration that say who wrote the folder, not how the model computes.
_NO_SETTING = (
    *("architectures", "dtype", "torch_dtype", "transformers_version", "paddleformers_version"),
    *("paddlenlp_version", "_name_or_path", "name_or_path"),
)
_WEIGHTS = "weights"  # the folder with a case's own, beside those with marks


def has_loader(pair: Pair) -> bool:
    """Return whether a library's own loader carries the pair's weights."""
    return getattr(pair.case, "load", None) is not None


class Carrier:
    """The loader of one side, and what it made of the folders of one model's cases."""

    def __init__(self, job):
        self.job = job
        self.side = job.side
        self.files = job.files
        self.module = load_model_file(job)
        self._known: list[tuple[dict, Loaded]] = []  # configuration -> what was found

    # ---- the reference's side -------------------------------------------------------------------

    def write(self, case: Case, state: dict[str, np.ndarray], owners: dict[str, Owner]) -> None:
        """Write a case's folders, and read them by the reference's own loader.

        Raises LayoutError where that does not give back what was written.
        """
        folder = self.files.to_load(case.start)
        shutil.rmtree(folder, ignore_errors=True)
        self.files.loaded(case.start).unlink(missing_ok=True)
        known = any(config == case.config for config, _ in self._known)
        marks = Marks(owners, state)
        given = {} if known else {marked(i): marks.state(i) for i in range(PASSES)}
        for name, values in (given | {_WEIGHTS: state}).items():
            model = self.built(case)
            self.side.load_state(model, values)
            self.save(model, case, folder / name)
        problems = []
        if not known:
            loaded = self.traced(case, marks, owners)
            self._known.append((case.config, loaded))
            problems = [*loaded.problems, *loaded.departures(marks)]
        problems = problems or self._changed(case, state)
        if problems:
            raise unloaded("torch", problems)

    def save(self, model, case: Case, folder: Path) -> None:
        """Write a model's weights as the folder of this side's library, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        own = getattr(self.module, "save", None)
        if own is not None:
            own(model, str(folder))
            return
        found = self._library_model(model, SAVE_PRETRAINED)
        if found is not None:
            found[1].save_pretrained(str(folder))
            return
        try:
            from safetensors.numpy import save_file
        except ModuleNotFoundError:
            file = str(self.job.pair.folder / "torch_model.py")
            raise UserError(Kind.LOADER_SAFETENSORS_MISSING(file=file)) from None
        owners = self.side.owners(model)
        state = self.side.state(model)
        once = {k: np.ascontiguousarray(v) for k, v in state.items() if owners[k].same_as == k}
        save_file(once, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(case.config, indent=2) + "\n")

    # ---- the candidate's side -------------------------------------------------------------------

    def read(self, case: Case) -> None:
        """Read a case's folders by this side's own loader, and leave what it made of them."""
        request, folder = self.job.request, self.files.to_load(case.start)
        # Of a check that has read them.
        later = request.teacher_forced or request.phase != PHASES[0]
        if self.files.loaded(case.start).is_file() and (later or not folder.is_dir()):
            return
        if not (folder / _WEIGHTS).is_dir():
            raise UserError(Kind.LOADER_FOLDER_MISSING(folder=str(folder)))
        state = self.job.states.load(self.files.weights(case.start), may_be_empty=True)
        torch_owners = weights.load_owners(self.files.weights(case.start))
        marks = Marks(torch_owners, state)
        loaded = next((found for config, found in self._known if config == case.config), None)
        if loaded is None:
            loaded = self.traced(case, marks, self.side.owners(self.built(case)))
            self._known.append((case.config, loaded))
        loaded = replace(
            loaded, problems=loaded.problems + self._changed(case, arranged(loaded, state))
        )
        save_loaded(self.files.loaded(case.start), loaded)
        if request.keep != "all" and weights.bytes_of(state) > weights.LARGE_BYTES:
            shutil.rmtree(folder, ignore_errors=True)

    # ---- both -----------------------------------------------------------------------------------

    def traced(self, case: Case, marks: Marks, owners: dict[str, Owner], within="") -> Loaded:
        """Load the marked folders, maybe `within` a round trip; return where the marks went."""
        passes = []
        for i in range(PASSES):
            model = self.loaded(case, Path(within, marked(i)))
            passes.append(self.side.state(model))
        loaded = read_marks(marks, passes, owners)
        loaded.problems += tie_problems(owners, self.side.owners(model))
        loaded.notes += self._settings_notes(case, model)
        return loaded

    def _settings_notes(self, case: Case, model) -> list[str]:
        """Return notes on what the loaded model's configuration has otherwise than `build`'s."""
        configs = []
        for one in (model, self.built(case)):
            parts = (getattr(part, "config", None) for _, part in self.side.modules(one))
            config = next((part for part in parts if hasattr(part, "to_dict")), None)
            if config is None:
                return []
            configs.append(config.to_dict())
        loaded, built = configs
        return [
            Kind.LOADER_READ_OTHERWISE(
                side=self.side.NAME,
                name=name,
                loaded=_shown(loaded.get(name)),
                built=_shown(built.get(name)),
            )
            for name in sorted(set(loaded) | set(built))
            if name not in _NO_SETTING and loaded.get(name) != built.get(name)
        ]

    def _changed(self, case: Case, wanted: dict[str, np.ndarray]) -> list[str]:
        """Return reasons for those of a case's own weights that do not arrive as the marks did."""
        found = self.side.state(self.loaded(case, _WEIGHTS))
        return [
            Kind.LOADER_COMPUTES(key=key, case=case.name or "main")
            for key, values in wanted.items()
            if key in found and not same_bits(found[key], values)
        ]

    def built(self, case: Case):
        """The case's model in float32, as its file builds it."""
        request = self.job.request
        self.side.set_up("float32", request.device, request.seed + case.seed)
        return self.module.build(dict(case.config))

    def loaded(self, case: Case, name: str | Path):
        """The model that a loader has filled from a folder, under the names of `build`'s."""
        folder = self.files.to_load(case.start) / name
        model = self.built(case)
        load = getattr(self.module, "load", None) or self.job.pair.case.load
        try:
            if load == FROM_PRETRAINED:
                return self._from_pretrained(model, folder)
            returned = load(model, str(folder))
        except UserError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            told = Kind.EXCEPTION(exception=type(error).__name__, text=text)
            raise UserError(Kind.LOADER_FAILS(side=self.side.NAME, error=told)) from error
        return model if returned is None else returned

    def _from_pretrained(self, model, folder: Path):
        found = self._library_model(model, FROM_PRETRAINED)
        if found is None:
            case = str(self.job.pair.folder / "case.py")
            raise UserError(Kind.LOADER_PART_MISSING(file=case, side=self.side.NAME))
        path, library = found
        read = type(library).from_pretrained(str(folder))
        if not path:
            return read
        above, _, name = path.rpartition(".")
        setattr(dict(self.side.modules(model))[above], name, read)
        return model

    def _library_model(self, model, method: str):
        """(path, module) of the outermost part whose class has a method; None where none has.

        Raises UserError where several have, side by side.
        """
        found: list[tuple[str, object]] = []
        for path, module in self.side.modules(model):
            inside = any(not outer or path.startswith(f"{outer}.") for outer, _ in found)
            way = getattr(type(module), method, None)
            # torch.nn.Embedding has a from_pretrained too, which makes one of a tensor.
            own = str(getattr(way, "__module__", "")).split(".")[0] != self.side.NAME
            if not inside and callable(way) and own:
                found.append((path, module))
        if len(found) > 1:
            case, names = str(self.job.pair.folder / "case.py"), ", ".join(dict(found))
            raise UserError(Kind.LOADER_PARTS_SEVERAL(file=case, names=names, method=method))
        return found[0] if found else None


def marked(which: int) -> str:
    """The folder with the marks of a pass."""
    return f"marks_{which}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def arranged(loaded: Loaded, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values of a torch state where the loader puts them: this side's key -> array.

    Entries with an element from nowhere are left out: what they should be, nobody knows.
    """
    flat = np.concatenate([state[key].reshape(-1) for key in loaded.starts] or [np.zeros(0)])
    kept = {k: index for k, index in loaded.sources.items() if (index >= 0).all()}
    return {key: flat[index] for key, index in kept.items()}


def save_loaded(path: Path, loaded: Loaded) -> None:
    """Leave what a loader made of the marks for the runs that come."""
    path.parent.mkdir(exist_ok=True)
    weights.save_state(path, loaded.sources)
    entries = {name: getattr(loaded, name) for name in ("starts", "reasons", "problems", "notes")}
    write_json(path.with_suffix(".json"), entries)


def layout_of(job, case: Case, owners: dict[str, Owner], others: dict[str, Owner]) -> Layout:
    """Return where a model's entries come from; by what `save_loaded` has left of a loader."""
    hooks = getattr(job.pair.case, "RENAME", {}), getattr(job.pair.case, "convert", None)
    if len(set(map(framework_of, job.request.backends))) == 1:  # nothing is to be turned
        rename = {} if set(others) <= set(owners) else hooks[0]
        return Layout(owners, others, rename, alike=True)
    if not has_loader(job.pair):
        return Layout(owners, others, *hooks)
    path = job.files.loaded(case.start)
    sources = weights.load_state(path, may_be_empty=True)
    loaded = Loaded(sources=sources, **load_json(path.with_suffix(".json")))
    return LoadedLayout(owners, others, *hooks, loaded)
