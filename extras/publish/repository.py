"""An exported repository's files, written into a folder."""

import ast
import importlib.metadata
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.hashes import file_sha256
from twincheck.extras.publish import Kind, readme
from twincheck.extras.publish.published import Published
from twincheck.extras.publish.samples import Samples
from twincheck.extras.publish.source import (
    CONFIG,
    MODEL,
    PROGRAMS,
    RUNTIME,
    Sources,
    bound_names,
    extract,
    take,
)

_ALWAYS = ("predict.py", "export.py", "infer.py", "run_chain.sh")
_LICENSES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING")
_TAKEN = ("paddle", "numpy", "eval", "train", "predict", "export", "infer")


@dataclass
class Settings:
    """The further facts that the repository states of itself."""

    package: str
    versions: Mapping[str, str]  # of paddlepaddle and numpy, in the environment that was checked
    samples: Samples | None
    free_batch: bool = True
    no_program: str = ""  # why paddle.jit.save cannot save the model


def package_name(name: str) -> str:
    """The name of the model's package: the pair's, where Python takes it."""
    package = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    package = package if package.isidentifier() else f"model_{package}"
    return f"{package}_model" if package in _TAKEN or _is_known(package) else package


def _is_known(package: str) -> bool:
    """Return whether another module has that name."""
    installed = importlib.metadata.packages_distributions()
    return package in sys.stdlib_module_names or package in installed


def write_repository(folder: Path, published: Published, settings: Settings) -> Sources:
    """Write everything but the outputs of the example; UserError for what cannot stand alone."""
    pair, samples = published.pair, settings.samples
    own_metric = samples is not None and hasattr(pair.case, "metric")
    more = frozenset({"metric"}) if own_metric else frozenset()
    sources = take(pair.folder, settings.package, pair.built_in, more)
    package = folder / settings.package
    package.mkdir(parents=True)
    for module, text in sources.modules.items():
        (package / f"{module}.py").write_text(text, encoding="utf-8")
    _write_program(package / "__init__.py", "package.py", settings, _begin(sources))
    _write_program(package / "arrays.py", "arrays.py", settings)
    title = "Arrays under flat names, nested as a forward takes them."
    _write_part(package / "nested.py", "nested.py", {"nested"}, title)
    programs = [p for p in _ALWAYS if p not in ("export.py", "infer.py") or not settings.no_program]
    if samples is not None:
        programs.append("eval.py")
        _write_metrics(package, own_metric, settings)
        write_arrays(folder / "data" / "train.npz", samples.train)
        write_arrays(folder / "data" / "test.npz", samples.test)
        if _has_loss(sources.modules[MODEL]):
            programs.append("train.py")
            title = "Schedules of the learning rate: step number -> factor."
            _write_part(package / "schedules.py", "schedules.py", {"schedule"}, title)
    for program in programs:
        _write_program(folder / program, program, settings)
    (folder / "weights").mkdir()
    shutil.copyfile(published.weights, folder / "weights" / "model_state.pdparams")
    write_arrays(folder / "example" / "inputs.npz", published.inputs)
    requirements = _requirements(sources, settings)
    (folder / "requirements.txt").write_text("".join(f"{r}\n" for r in requirements))
    _write_config(folder, published, settings)
    licence = _write_licences(folder, pair)
    for name, text in readme.pages(published, settings, programs, licence).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n/inference/\n/log/\n/output/\n")
    return sources


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a batch, or a set of samples."""
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, **arrays)


def _write_program(path: Path, name: str, settings: Settings, text: str | None = None) -> None:
    text = (PROGRAMS / name).read_text(encoding="utf-8") if text is None else text
    path.write_text(text.replace("model_package", settings.package), encoding="utf-8")


def _begin(sources: Sources) -> str:
    """The package's own file: `begin` comes from runtime.py where that is there."""
    text = (PROGRAMS / "package.py").read_text(encoding="utf-8")
    start, end = text.index("\n\n# begin\n"), text.index("# end\n")
    if RUNTIME not in sources.modules:
        return text[:start] + "\n\n" + text[start + len("\n\n# begin\n") : end]
    imported = "from .model import build\n"
    told = f"{imported}from .runtime import begin\n"
    return text[:start].replace(imported, told)


def _write_metrics(package: Path, own: bool, settings: Settings) -> None:
    """metrics.py, with the pair's own score or the usual ones."""
    if own:
        text = (
            '"""The model\'s score over a whole test set."""\n\n'
            f"from .{CONFIG} import metric\n\n\n"
            "def score(config, outputs, samples):\n"
            '    """Name -> value; outputs and samples: name -> array (N, ...)."""\n'
            "    return {name: float(value) for name, value in metric(outputs, samples).items()}\n"
        )
        (package / "metrics.py").write_text(text, encoding="utf-8")
        return
    _write_program(package / "metrics.py", "metrics.py", settings)
    wanted = {"accuracy", "forecast_scores", "macro_f1", "next_token_sums"}
    title = "Scores of predictions against labels; NumPy only."
    _write_part(package / "scoring.py", "metrics.py", wanted, title)


def _write_part(path: Path, name: str, wanted: set[str], title: str) -> None:
    """A part of a file of common/pair/."""
    text = (ROOT / "common" / "pair" / name).read_text(encoding="utf-8")
    path.write_text(extract(text, wanted, name, title), encoding="utf-8")


def _has_loss(text: str) -> bool:
    """Return whether the model's file defines `loss`, at its top level."""
    return any("loss" in bound_names(statement) for statement in ast.parse(text).body)


def _requirements(sources: Sources, settings: Settings) -> list[str]:
    """The lines of requirements.txt: what was there when the export was checked."""
    lines = [f"paddlepaddle=={settings.versions['paddlepaddle']}"]
    lines.append(f"numpy=={settings.versions['numpy']}")
    known = importlib.metadata.packages_distributions()
    for package in sorted(sources.packages - {"paddle", "numpy"}):
        for distribution in known.get(package, [package])[:1]:
            try:
                lines.append(f"{distribution}=={importlib.metadata.version(distribution)}")
            except importlib.metadata.PackageNotFoundError:
                lines.append(distribution)
    return lines


def _write_config(folder: Path, published: Published, settings: Settings) -> None:
    case = str(published.pair.folder / "case.py")
    entries = {
        "model": published.case.config,
        "seed": published.seed,
        "free_batch": settings.free_batch,
        "weights": {
            "from": published.origin,
            "sha256": file_sha256(folder / "weights" / "model_state.pdparams"),
        },
    }
    if settings.samples is not None:
        entries["train"] = settings.samples.settings
    try:
        text = json.dumps(entries, indent=2, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise UserError(Kind.CONFIG_NO_JSON(file=case, error=str(error))) from None
    if json.loads(text)["model"] != _as_lists(published.case.config):
        raise UserError(Kind.CONFIG_OTHER_IN_JSON(file=case))
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def _as_lists(value):
    """The value as JSON gives it back: a tuple is a list there."""
    if isinstance(value, dict):
        return {key: _as_lists(inner) for key, inner in value.items()}
    return [_as_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


def _write_licences(folder: Path, pair) -> str:
    """Licence files; returns the model's own, empty where none was beside it."""
    if pair.built_in:
        shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
        return "LICENSE"
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE-programs")
    for name in _LICENSES:
        if (pair.folder / name).is_file():
            shutil.copyfile(pair.folder / name, folder / name)
            return name
    return ""
