"""The package as users have it: a wheel, in an environment where it alone is this project's."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from checkout import ROOT

# What is called tests, faults or tools is the project's own; the rest does not belong to a source.
_LEFT_OUT = (".*", "tests", "faults", "tools", "log", "build", "*.egg-info")


def build_wheel(folder: Path) -> Path:
    """The wheel, built of a copy: what is built in a folder stays there."""
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*_LEFT_OUT))
    build = "wheel --quiet --no-deps --no-build-isolation --wheel-dir".split()
    source = str(folder / "source")
    subprocess.run([sys.executable, "-m", "pip", *build, str(folder), source], check=True)
    return next(folder.glob("*.whl"))


class Installed:
    """An environment with a wheel; its dependencies are those of the tests' environment.

    wheel    None: the dependencies alone, as in the environment of one side
    without  beginnings of names of packages that this environment does not have
    """

    def __init__(self, folder: Path, wheel: Path | None, without: Sequence[str] = ()):
        venv.EnvBuilder(symlinks=True).create(folder)
        self.python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python3*/site-packages")
        # As a .pth does for packages alone: the .pth files there, which lead to this checkout, are
        # not read.
        theirs = Path(find_spec("pip").origin).parents[1]
        if not without:
            (self.packages / "dependencies.pth").write_text(f"{theirs}\n")
        for path in theirs.iterdir() if without else ():
            own = path.name.startswith(("__editable__", "twincheck", *without))
            if not own and path.suffix != ".pth":
                (self.packages / path.name).symlink_to(path)
        if wheel is None:
            return
        pip = [sys.executable, "-m", "pip", "--python", str(self.python)]
        install = "install --quiet --no-index --no-deps --ignore-installed".split()
        subprocess.run([*pip, *install, str(wheel)], check=True)

    def run(self, folder: Path, *words: str | Path) -> subprocess.CompletedProcess:
        """A Python program in a folder, with nothing of these tests on its path."""
        values = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [str(self.python), *map(str, words)]
        return subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True)

    def command(self, folder: Path, *words: str | Path) -> subprocess.CompletedProcess:
        """`twincheck` in a folder."""
        return self.run(folder, self.python.parent / "twincheck", *words)

    def files(self) -> set[str]:
        """Return the files in the environment, but what Python compiled."""
        found = (path for path in self.packages.rglob("*") if path.suffix != ".pyc")
        return {str(path.relative_to(self.packages)) for path in found if path.is_file()}
