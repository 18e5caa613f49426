"""The other Pythons of this machine that have a framework; none is made to import it.

And which versions of all of these the workbench was tried with.
"""

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twincheck.common.system.checkout import PATH, for_logs
from twincheck.common.system.errors import UserError
from twincheck.common.system.interpreters import ask
from twincheck.common.system.processes import environment
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
_IN_HOME = (".pyenv/versions/*", ".virtualenvs/*", "*conda3", "*conda3/envs/*", "*forge3/envs/*")


def order(version: str) -> tuple[int, ...]:
    """Return a version's numbers, without what its build is called."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def pythons_with(side: str) -> list[str]:
    """Return the other Pythons that can run a side: those in the working folder, then the newest
    framework."""
    # An environment's Python is a link to the one behind it: its folder tells it apart.
    paths = {(os.path.realpath(p.parent), os.path.realpath(p)): p for p in reversed([*places()])}
    own = Path(sys.executable)
    paths.pop((os.path.realpath(own.parent), os.path.realpath(own)), None)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        answers = list(threads.map(_answer, paths.values()))
    fit = [
        (path.is_relative_to(Path.cwd()), order(answer[side]), str(path))
        for path, answer in zip(paths.values(), answers, strict=True)
        if side in answer and "numpy" in answer and order(answer["python"])[:2] >= OLDEST_PYTHON
    ]
    return [path for *_, path in sorted(fit, reverse=True)]


def places() -> Iterator[Path]:
    """Give where Pythons are: environments here, the active ones, on PATH, pyenv's, conda's."""
    tops = [path.parent for path in sorted(for_logs().glob("*/pyvenv.cfg"))]
    tops += [path.parent for path in sorted(Path.cwd().glob("*/pyvenv.cfg"))]
    active = filter(None, map(os.environ.get, ("VIRTUAL_ENV", "CONDA_PREFIX")))
    tops += [*map(Path, active), *(top for name in _IN_HOME for top in Path.home().glob(name))]
    found = [top / "bin" / "python" for top in tops]
    for folder in map(Path, os.get_exec_path()):
        # pyenv's shims stand for Pythons that are found in its own folder.
        if folder.name != "shims" and folder.is_dir():
            found += (path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name))
    yield from (path for path in found if path.is_file() and os.access(path, os.X_OK))


def _answer(path: Path) -> dict:
    """Ask a Python about itself; nothing is known of one that does not answer."""
    try:
        return ask(str(path), path, environment(), PATH, PATIENCE_S)
    except UserError:
        return {}
