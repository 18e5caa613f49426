"""The rooms of this house: which may import which, and how many lines the house may have.

    python -m tools.rooms            what is wrong: an import that the table of rooms does not
                                     allow, more lines of Python than CEILING
    python -m tools.rooms ROOT       the same of another checkout

A room is a folder of common/, or a file beside the folders, which is a command.  Imports are read
from the source, those inside functions too, so that nothing has to be installed.  The core, which
is common/ and the steps, imports no extra, and no extra imports another but extras/shared.

Lines are counted as they stand, in all folders of the checkout; CEILING is only ever lowered.  Exit
status 1 where an import is not allowed, and where there are more lines.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from twincheck.common.system.program import Parser

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "common"
INSTALLED = "twincheck"  # what the core is imported as; the faces and the programs' door
EXTRAS = "extras"
SHARED = f"{EXTRAS}.shared"  # what several of them need and the core does not

# What a folder may import besides itself.
FOLDERS: dict[str, set[str]] = {
    "system": set(),
    "logs": {"system"},
    "pair": {"system"},
    "verdict": {"logs", "system"},
    "weights": {"pair", "logs", "system"},
    "transplant": {"verdict", "logs", "pair", "system"},
    "line": {"logs", "system"},
    "report": {"verdict", "logs", "pair", "system"},
    "sides": {"weights", "transplant", "pair", "logs", "system"},
    "check": {"report", "line", "transplant", "weights", "verdict", "pair", "logs", "system"},
    "models": {"torch_side", "paddle_side", "pair"},
}
# The files that a model's file imports; every other file beside the folders is a command.
FACES = {"torch_side": {"sides"}, "paddle_side": {"sides"}}


def module_files(root: Path) -> dict[str, Path]:
    """Dotted module -> file of all of common/ and of the faces, packages under their own name."""
    files = {}
    faces = [root / INSTALLED / f"{name}.py" for name in FACES]
    for path in sorted([*(root / PACKAGE).rglob("*.py"), *faces]):
        parts = path.relative_to(root).with_suffix("").parts
        parts = (PACKAGE, *parts[1:])  # the faces stand beside the rooms
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        files[".".join(parts)] = path
    return files


def imports_of(root: Path, files: dict[str, Path]) -> Iterator[tuple[str, str, str]]:
    """Give every import of one file of common/ by another: file:line, who imports, and what."""
    for module, path in files.items():
        for line, name in _names_in(path.read_text(encoding="utf-8")):
            target = _known(name, files)
            if target is not None and target != module:
                yield f"{path.relative_to(root)}:{line}", module, target


@cache
def _names_in(source: str) -> list[tuple[int, str]]:
    """(line, dotted name) of what a file imports."""
    nodes = ast.walk(ast.parse(source))
    return [(node.lineno, _short(name)) for node in nodes for name in _named_modules(node)]


def _short(name: str) -> str:
    """A module's name from its folder of the checkout on; a face's as if it stood in common/."""
    short = name.removeprefix(f"{INSTALLED}.")
    return f"{PACKAGE}.{short}" if short.partition(".")[0] in FACES else short


def _named_modules(node: ast.AST) -> Iterable[str]:
    """The dotted names that an import statement, or import_module("…"), asks for."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        name = node.args[0]
        if called == "import_module" and isinstance(name, ast.Constant):
            yield str(name.value)
        elif called == "import_module" and isinstance(name, ast.JoinedStr):
            # Only known when it runs: a side's name, or a pair's.  A model's file is loaded as a
            # user's own is, from its folder, which is no import of the room of models.
            parts = [
                part.value if isinstance(part, ast.Constant) else "torch" for part in name.values
            ]
            if not parts[0].startswith(f"{INSTALLED}.{PACKAGE}.models."):
                yield "".join(parts)


def _known(name: str, files: dict[str, Path]) -> str | None:
    """The module of common/ that a dotted name lies in; None for all else."""
    parts = name.split(".")
    while parts:
        module = ".".join(parts)
        if module in files and module != PACKAGE:
            return module
        parts.pop()
    return None


def room_of(module: str) -> str:
    """The room that a module is in: the folder, or the file beside the folders, or the package."""
    return module.split(".")[:2][-1]


def violations(root: Path = ROOT) -> list[str]:
    """Sentences on every import that the table does not allow; none is good."""
    files = module_files(root)
    found = []
    for where, importer, imported in imports_of(root, files):
        room, other = room_of(importer), room_of(imported)
        if room != other and not _allowed(room, other):
            found.append(f"{where}: {importer} imports {imported}: {room} may not import {other}")
    found += _imports_of_extras(root)
    return found


def _imports_of_extras(root: Path) -> list[str]:
    """Sentences on files of the core, and of an extra, that import another extra."""
    found = []
    for folder in (root / PACKAGE, *sorted(root.glob("step*/")), *sorted(root.glob("extras/*/"))):
        own = f"{EXTRAS}.{folder.name}" if folder.parent.name == EXTRAS else None
        for path in sorted(folder.rglob("*.py")):
            for line, name in _names_in(path.read_text(encoding="utf-8")):
                is_own = own is not None and f"{name}.".startswith((f"{own}.", f"{SHARED}."))
                if name.partition(".")[0] == EXTRAS and not is_own:
                    where = f"{path.relative_to(root)}:{line}"
                    found.append(f"{where}: {own or 'the core'} may not import {name}")
    return found


def _allowed(room: str, other: str) -> bool:
    if room in FOLDERS:
        return other in FOLDERS[room]
    if room in FACES:
        return other in FACES[room]
    return other != "sides" and other not in FACES  # a command runs in the check's process


# ---- lines --------------------------------------------------------------------------------------

CEILING = 104_792
# Named, so that a newcomer's own files beside them are not counted.
_TOPS = (PACKAGE, INSTALLED, EXTRAS, "examples", "fake_data", "faults", "tests", "tools", "step*_*")


def python_files(root: Path = ROOT) -> list[Path]:
    """Return the checkout's files of Python, but those in folders of logs."""
    paths = (path for top in _TOPS for path in sorted(root.glob(f"{top}/**/*.py")))
    return [path for path in paths if "log" not in path.relative_to(root).parts]


def lines(root: Path = ROOT) -> int:
    """Return how many lines of Python the checkout has."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(root))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, metavar="ROOT")
    root = parser.parse_args(arguments).root.resolve()
    count = lines(root)
    print(f"{count:,} lines of Python of {CEILING:,}")
    found = violations(root) if (root / PACKAGE / "system").is_dir() else []
    if count > CEILING:
        found.append(f"{count:,} lines of Python, above the ceiling of {CEILING:,}")
    print("\n".join(found) if found else "every import is one that the table allows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
