"""What a log was made from: hashes of the source files that a side's run depends on.

The workers write these into their sidecars, the check's process compares them.
"""

import ast
import hashlib
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from twincheck import HERE
from twincheck.common.pair.pairs import CANDIDATE, Pair, own_folder
from twincheck.common.system.checkout import FAKE_DATA, ROOT
from twincheck.common.system.files import ONE_SYNTAX_TREE
from twincheck.common.system.frameworks import SIDES, framework_of
from twincheck.common.system.hashes import file_sha256

# The rooms of common/ whose code runs in a worker, or prepares what a worker is given.
_ROOMS_OF_A_LOG = ("system", "logs", "pair", "weights", "transplant", "sides")


def model_sources(pair: Pair, side: str) -> dict[str, str]:
    """File -> SHA-256 of a pair's Python files that a side reads: all but other models' files.

    Names are relative to the pair's folder.
    """
    others = {CANDIDATE, *(f"{name}_model.py" for name in SIDES)} - {pair.file(side)}
    folders = {own_folder(name.removesuffix("_model.py")) for name in others}
    found = {path.relative_to(pair.folder): path for path in pair.files()}
    return {
        place.as_posix(): file_sha256(path, links=True)
        for place, path in found.items()
        if path.suffix == ".py" and path.name not in others and place.parts[0] not in folders
    }


def imported_packages(pair: Pair, side: str) -> list[str]:
    """Packages beside Python's own, NumPy and the workbench that a side's files import."""
    found: set[str] = set()
    for name in model_sources(pair, side):
        with suppress(ValueError, SyntaxError):  # of another Python: nothing that runs imports it
            text = (pair.folder / name).read_text(encoding="utf-8")
            found.update(module.partition(".")[0] for module, _ in _imports(text))
    return sorted(found - {*sys.stdlib_module_names, *SIDES, "common", "twincheck", "numpy"})


@cache  # every log of a process asks for the same files
def _imports(source: str) -> list[tuple[str, list[str]]]:
    """(module, what is taken from it by name) of what a file imports, but from its own package."""
    with ONE_SYNTAX_TREE:
        tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.module, [alias.name for alias in node.names]))
    return found


def workbench_sha256(pair: Pair, side: str, scripts: str) -> str:
    """One SHA-256 of the workbench's own files that a side's logs of a step depend on."""
    digest = hashlib.sha256()
    for path in workbench_files(pair, side, scripts):
        content = file_sha256(path, links=True)
        digest.update(f"{path.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def workbench_files(pair: Pair, side: str, scripts: str) -> list[Path]:
    """The workbench's own files that a side's logs of a step depend on; no other changes a log.

    scripts  the step's folder, or the dotted name of a script in it, or of one for both sides

    Of common/ these are whole rooms, since the check prepares with some of their files what the
    workers are given; of the step what its scripts import.  What only judges or shows is none.
    """
    common, own = ROOT / "common", framework_of(pair.backends[SIDES.index(side)])
    other = next(name for name in SIDES if name != own)
    files = {path for room in _ROOMS_OF_A_LOG for path in (common / room).rglob("*.py")}
    files |= {common / "__init__.py", Path(HERE).resolve() / f"{own}_side.py"}
    at = ROOT.joinpath(*scripts.removeprefix("twincheck.").partition(f".{own}.")[0].split("."))
    given = (at / own).glob("*.py") if at.is_dir() else [at.with_suffix(".py")]
    files |= _imported_of_steps(path for path in given if path.is_file())
    if pair.built_in:
        files |= {common / "models" / "__init__.py", *FAKE_DATA.glob(f"{pair.name}.npz")}
    return sorted(path for path in files if not path.name.startswith(f"{other}_"))


def _imported_of_steps(scripts: Iterable[Path]) -> set[Path]:
    """The scripts, and all files of the steps that they import, directly or not."""
    imported, waiting = set(), list(scripts)
    while waiting:
        path = waiting.pop()
        if path in imported:
            continue
        imported.add(path)
        for module, names in _imports(path.read_text(encoding="utf-8")):
            own = module.removeprefix("twincheck.")
            if own.startswith(("step", "extras.")):
                package = ROOT.joinpath(*own.split("."))
                files = [(package / name).with_suffix(".py") for name in ("", *names)]
                waiting += [file for file in files if file.is_file()]
    return imported


def changed_sources(recorded: Mapping[str, str], pair: Pair, side: str) -> list[str]:
    """The pair's files that are not what they were when a log was made; none without a record.

    recorded  what model_sources was then, as the log's sidecar has it
    """
    if not recorded:
        return []
    now = model_sources(pair, side)
    return sorted(name for name in {*recorded, *now} if recorded.get(name) != now.get(name))
