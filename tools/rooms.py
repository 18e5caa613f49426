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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
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
    "report": {"verdict", "logs", "pair", "system"},
    "sides": {"weights", "transplant", "pair", "logs", "system"},
    "check": {"report", "transplant", "weights", "verdict", "pair", "logs", "system"},
    "models": {"torch_side", "paddle_side", "pair"},
}
# The files that a model's file imports; every other file beside the folders is a command.
FACES = {"torch_side": {"sides"}, "paddle_side": {"sides"}}
APART = ("check", "sides")  # they speak through files


@dataclass(frozen=True)
class Import:
    """One import of a file of common/ by another: where it stands, and what it names."""

    path: Path  # of the file that imports, from the checkout's root
    line: int
    importer: str  # dotted modules
    imported: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.importer} imports {self.imported}"


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


def imports_of(root: Path, files: dict[str, Path]) -> list[Import]:
    """Every import of one file of common/ by another, in the order of the files."""
    found = []
    for module, path in files.items():
        for line, name in _names_in(path.read_text(encoding="utf-8")):
            target = _known(name, files)
            if target is not None and target != module:
                found.append(Import(path.relative_to(root), line, module, target))
    return found


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
    """The room that a module is in: the folder, or the file beside the folders."""
    return module.split(".")[1]


def circle(imports: Sequence[Import]) -> list[str]:
    """The modules of one circle of imports, in order; empty where there is none."""
    below: dict[str, set[str]] = {}
    for one in imports:
        # A package's own file is read before those in it, which may name it: no circle.
        if not one.importer.startswith(f"{one.imported}."):
            below.setdefault(one.importer, set()).add(one.imported)
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def violations(root: Path = ROOT) -> list[str]:
    """Sentences on every import that the table does not allow, and on a circle; none is good."""
    files = module_files(root)
    imports = imports_of(root, files)
    found = []
    for one in imports:
        room, other = room_of(one.importer), room_of(one.imported)
        if room != other and not _allowed(room, other):
            found.append(f"{one}: {room} may not import {other}")
    found += _imports_of_extras(root)
    way = circle(imports)
    if way:
        found.append(f"a circle of imports: {' imports '.join(way)}")
    reached = {side: _reached(side, files, imports) for side in APART}
    for side, other in (APART, APART[::-1]):
        found += [
            f"{module}: {side} reaches it, although {side} and {other} speak through files alone"
            for module in sorted(reached[side])
            if room_of(module) == other
        ]
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


def _reached(room: str, files: dict[str, Path], imports: Sequence[Import]) -> set[str]:
    """All modules that a room's files import, and those that these import."""
    below: dict[str, set[str]] = {}
    for one in imports:
        below.setdefault(one.importer, set()).add(one.imported)
    waiting = [module for module in files if module != PACKAGE and room_of(module) == room]
    seen: set[str] = set()
    while waiting:
        for module in below.get(waiting.pop(), ()):
            if module not in seen:
                seen.add(module)
                waiting.append(module)
    return seen


# ---- lines --------------------------------------------------------------------------------------

CEILING = 131_379  # of all folders of the checkout together
# Named, so that a newcomer's own files beside them are not counted.
_TOPS = (PACKAGE, INSTALLED, EXTRAS, "examples", "fake_data", "faults", "tests", "tools", "step*_*")


def lines(root: Path = ROOT) -> int:
    """Return how many lines of Python the checkout has."""
    paths = (path for top in _TOPS for path in root.glob(f"{top}/**/*.py"))
    kept = (path for path in paths if "log" not in path.relative_to(root).parts)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in kept)


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
