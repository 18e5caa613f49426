"""The other Pythons of this machine, and which framework each has; none is made to import one.

And which versions of all of these the workbench was tried with.
"""

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import ask
from twincheck.common.system.start import OLDEST_PYTHON

# Those that the workbench was tried with, in order; docs/environments.md says what passed in each.
TRIED = {
    "python": ("3.10.13", "3.11.7", "3.12.1", "3.13.0"),
    "numpy": ("1.26.4", "2.4.6", "2.5.5"),
    "torch": ("2.4.1", "2.8.0", "2.13.0"),
    "paddle": ("2.6.2", "3.0.0", "3.1.1", "3.2.2", "3.3.1"),
}
PATIENCE_S = 10.0
AT_A_TIME = 8
_NAME = re.compile(r"python(3(\.\d+)?)?")
_CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge")


@dataclass(frozen=True)
class Python:
    """A Python, and the versions of what it has: torch, paddle, numpy."""

    path: str
    version: str
    has: dict[str, str]

    def can_run(self, side: str) -> bool:
        """Return whether it can run a side; --torch-python, --paddle-python refuse it if not."""
        new_enough = order(self.version)[:2] >= OLDEST_PYTHON
        return new_enough and side in self.has and "numpy" in self.has


def order(version: str) -> tuple[int, ...]:
    """Return a version's numbers, without what its build is called."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def other_pythons() -> list[Python]:
    """All that are found and answer, but this one; those near the working folder come first."""
    own = _place(Path(sys.executable))
    paths: dict[tuple, Path] = {}
    for path in filter(_runs, places()):
        paths.setdefault(_place(path), path)
    paths.pop(own, None)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        answers = list(threads.map(_answer, paths.values()))
    found: dict[tuple, Python] = {}
    for path, answer in zip(paths.values(), answers, strict=True):
        if answer is None:
            continue
        has = {name: answer[name] for name in (*SIDES, "numpy") if name in answer}
        # A wrapper, as pyenv's, stands for a Python that may have been found by itself.
        place = _place(Path(answer.get("executable") or path))
        if place != own:
            found.setdefault(place, Python(str(path), answer["python"], has))
    return list(found.values())


def places() -> Iterator[Path]:
    """Give where Pythons may be: environments here, the active ones, on PATH, pyenv's, conda's."""
    folders = dict.fromkeys([Path.cwd(), ROOT] if IN_A_CHECKOUT else [Path.cwd()])
    for folder in folders:
        for pattern in ("*/pyvenv.cfg", ".*/pyvenv.cfg"):
            yield from (path.parent / "bin" / "python" for path in sorted(folder.glob(pattern)))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(name):
            yield Path(os.environ[name], "bin", "python")
    for folder in os.get_exec_path():
        # pyenv's shims stand for Pythons that are found below, and ask pyenv each time.
        if Path(folder).name != "shims" and os.path.isdir(folder):
            names = filter(_NAME.fullmatch, os.listdir(folder))
            yield from (Path(folder, name) for name in sorted(names, key=len))
    home = Path(os.path.expanduser("~"))
    tops = [
        Path(os.environ.get("PYENV_ROOT") or home / ".pyenv", "versions"),
        home / ".virtualenvs",
    ]
    condas = [home / name for name in _CONDAS]
    if os.environ.get("CONDA_EXE"):
        condas.insert(0, Path(os.environ["CONDA_EXE"]).parent.parent)
    for top in [*tops, *(conda / "envs" for conda in condas)]:
        yield from sorted(top.glob("*/bin/python"))
    yield from (conda / "bin" / "python" for conda in condas)


def _place(path: Path) -> tuple[str, str]:
    """Return what tells two Pythons apart: an environment's is a link to the one behind it."""
    return os.path.realpath(path.parent), os.path.realpath(path)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _answer(path: Path) -> dict | None:
    """Ask a Python about itself; return None of one that does not answer."""
    try:
        return ask(str(path), path, PATIENCE_S)
    except UserError:
        return None
