"""Where a model's own modules and files are: found as Python finds them in its repository.

Runs in a side's process.  People run a script in one of the folders above the model's file, and
that folder is the first that its imports look into and the one that it opens files in.  Nobody says
which it was: it is the nearest that has what is asked for.
"""

import ast
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec, module_from_spec
from pathlib import Path

from twincheck.common.system.checkout import ROOT
from twincheck.extras.new_pair.spec import is_taken

_NO_OTHER = ("torch", "paddle", "numpy", "twincheck")  # that may lie in a folder beside the model


def package_of(error: ImportError) -> Path | None:
    """The folder that must be a package, of a relative import that fails; None of any other."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(Path(last.filename).read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.lineno == last.lineno and node.level:
                return Path(last.filename).parents[node.level - 1]
    return None


@cache
def opened_files() -> set[Path]:
    """Files that are opened to be read from now on; what Python imports is none."""
    found: set[Path] = set()

    def watch(event: str, arguments: tuple) -> None:
        name, mode, _ = arguments if event == "open" else (None, None, None)
        if isinstance(name, str) and not set(mode or "r") & set("wax+"):
            if not name.endswith((".py", ".pyc", ".so")):
                found.add(Path(os.path.abspath(name)))

    sys.addaudithook(watch)
    return found


class Whereabouts:
    """The folders that imports look into, the working folder, and packages without __init__.py."""

    def __init__(self, request: Mapping):
        file, here = request["file"], Path(request["cwd"])
        self.file = Path(file) if file else None
        self.module: str = request["module"]
        self.cwd = here
        self.path: list[str] = list(request["path"])
        self.bare: dict[str, str] = {}  # package -> what its __init__.py needs, and is not there
        above = self.file.parents if self.file else ()
        self._folders = list(dict.fromkeys([*list(above)[:-1], here]))  # of all but the root
        self._tried: set[tuple[Path, str]] = set()
        users = os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:]
        self._usual = [folder for folder in sys.path if folder not in users]
        self._first = [folder for folder in sys.path if folder != str(ROOT)]
        self._before = set(sys.modules)
        self._opened = opened_files()
        self._bared: list[set[str]] = []  # which packages together were left bare
        self._failure: Exception | None = None  # what a package is left bare for

    def enter(self) -> None:
        """Let imports look where this says, and nothing be imported from there yet."""
        again = {*self.links(), *(name.partition(".")[0] for name in self.bare)}
        for name in set(sys.modules) - self._before:
            if {name.partition(".")[0], f"{name}.py"} & again:
                del sys.modules[name]
        sys.path[:] = [*self.path, *self._first]
        for name in sorted(self.bare):
            sys.modules[name] = module_from_spec(find_spec(name))
        self._opened.clear()
        os.chdir(self.cwd)
        del sys.argv[1:]  # which are no arguments of the model's

    def mended(self, error: Exception) -> bool:
        """Look for what the model's code lacked when it ended in `error`; True to try again."""
        cause = getattr(error, "cause", None)
        found = False
        if isinstance(cause, FileNotFoundError):
            found = self._has_file(cause.filename)
        elif isinstance(cause, ImportError):
            name = cause.name or ""
            found = self._has_module(name) if name else self._is_deeper(package_of(cause))
            if not found and (name in self.bare or isinstance(cause, ModuleNotFoundError)):
                found = self._leaves_bare(cause)
                self._failure = self._failure or error
        lacks = getattr(getattr(cause, "obj", None), "__name__", "") in self.bare
        if not found and self._failure and (isinstance(cause, ImportError) or lacks):
            raise self._failure
        return found

    def _has_file(self, name: object) -> bool:
        if not isinstance(name, str) or os.path.isabs(name):
            return False
        found = next((f for f in self._folders if f != self.cwd and (f / name).exists()), None)
        if found is None or (found, name) in self._tried:
            return False
        self._tried.add((found, name))
        self.cwd = found
        return True

    def _has_module(self, name: str) -> bool:
        """Look in the nearest folder that has a module and was not asked for it; False for none."""
        if name.partition(".")[0] in _NO_OTHER:
            return False
        for folder in self._folders:
            path = folder.joinpath(*name.split("."))
            if (folder, name) not in self._tried and (
                path.is_dir() or path.with_name(f"{path.name}.py").is_file()
            ):
                self._tried.add((folder, name))
                if not self._is_from(folder):
                    self.path.insert(0, str(folder))
                return True
        return False

    def _is_from(self, root: Path) -> bool:
        """Take the file as a module of packages below `root`; False where it cannot be, or was."""
        if self.file is None or not self.file.is_relative_to(root):
            return False
        parts = self.file.relative_to(root).with_suffix("").parts
        before = self.module.split(".")
        if len(parts) <= len(before) or not all(map(str.isidentifier, parts)) or is_taken(parts[0]):
            return False
        former = str(self.file.parents[len(before) - 1])
        self.module = ".".join(parts)
        self.path = [str(root), *(folder for folder in self.path if folder != former)]
        return True

    def _is_deeper(self, package: Path | None) -> bool:
        """Take the file as a module of this folder or one above, if one has a name that will do."""
        if package is None:
            return False
        while is_taken(package.name) and package != package.parent:
            package = package.parent
        return self._is_from(package.parent)

    def _leaves_bare(self, error: ImportError) -> bool:
        """Leave the innermost package that fails as a whole without its __init__, if it can be."""
        failing = [
            frame.f_globals.get("__name__", "")
            for frame, _ in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_name == "<module>"
            and Path(frame.f_code.co_filename).name == "__init__.py"
        ]
        for name in reversed(failing):
            if name in (*self.bare, self.module) or name.rpartition(".")[0] in failing:
                continue  # it was tried, or is imported by the package that it is in
            # Where something is taken of what was left bare, that was no way.
            bare = {key: needed for key, needed in self.bare.items() if key != error.name}
            bare[name] = self.bare.get(error.name, error.name)
            if name.partition(".")[0] not in _NO_OTHER and set(bare) not in self._bared:
                self.bare = bare
                self._bared.append(set(bare))
                return True
        return False

    def links(self) -> dict[str, str]:
        """Name -> file or folder of all that was imported or read, and that Python has not."""
        found: dict[str, str] = {}
        for name in sorted(set(sys.modules) - self._before):
            path, parts = Path(getattr(sys.modules[name], "__file__", None) or "-"), name.split(".")
            own = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
            folder = Path(*own[: -len(parts)])
            if list(own[-len(parts) :]) == parts and str(folder) not in self._usual:
                top = parts[0] if len(parts) > 1 or path.name == "__init__.py" else path.name
                found.setdefault(top, str(folder / top))
        for path in sorted(filter(Path.is_file, self._opened)):
            if any(path.is_relative_to(folder) for folder in self._first):
                continue  # of an installed package, in an environment below the working folder
            for folder in (str(self.cwd), *self.path):
                if path.is_relative_to(folder):
                    top = path.relative_to(folder).parts[0]
                    found.setdefault(top, str(Path(folder) / top))
                    break
        return found
