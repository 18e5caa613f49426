"""Files of the user's that a pair takes a model from: linked into its folder, never copied.

So the pair runs what the user goes on editing, and says of it where it is.  With the file go those
beside it that it imports; a file of a package goes with the whole package.
"""

import ast
import os
from collections.abc import Mapping
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair.spec import Spec
from twincheck.extras.new_pair.torch_sources import packages

CASE = "case.py"


def linked(spec: Spec) -> dict[str, Path]:
    """Name in the pair's folder -> the file or package that it is to be a link to."""
    if spec.file is None:
        return {}
    top = spec.root / spec.module.partition(".")[0]
    if "." in spec.module:  # of a package; a folder beside mine.py may be called mine
        return {top.name: top}
    found: dict[str, Path] = {}
    waiting = [spec.file]
    while waiting:
        path = waiting.pop()
        if path.name in found:
            continue
        found[path.name] = path
        if path.is_file():
            for name in _imported(path):
                beside = spec.root / f"{name}.py", spec.root / name
                waiting += [path for path in beside if path.exists()][:1]
    return found


def _imported(path: Path) -> set[str]:
    """The first names of all that a file imports; none of a file that Python cannot read."""
    try:
        return set().union(*map(packages, ast.walk(ast.parse(path.read_bytes()))))
    except (SyntaxError, ValueError):  # said where it is imported
        return set()


def places_of(specs: Mapping[str, Spec]) -> dict[str, str]:
    """Side -> the folder in the pair's for its links: the pair's own, "", where names allow it.

    Both sides may have a net.py, and one may be called as a file of the pair.
    """
    links = {side: linked(spec) for side, spec in specs.items()}
    places, taken = {}, dict.fromkeys((CASE, *(f"{side}_model.py" for side in specs)), Path())
    for side, names in links.items():
        clash = any(taken.get(name, path) != path for name, path in names.items())
        places[side] = f"of_{side}" if clash else ""
        taken |= {} if clash else names
    return places


def make_links(links: Mapping[str, Path], folder: Path, final: Path) -> None:
    """Link a side's files into `folder`, which will be called `final`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in links.items():
        place, leads_to = folder / name, os.path.relpath(path, os.path.realpath(final))
        if place.is_symlink() and os.readlink(place) == leads_to:  # both sides run this file
            continue
        if place.is_symlink() or place.exists():
            raise UserError(f"{final / name}: there already, and no link to {path}")
        place.symlink_to(leads_to)


def replace_links(work: Path, folder: Path) -> None:
    """Give a pair's folder the links of one that was made anew; other files stay."""
    links = [p for p in (*work.glob("*"), *work.glob("of_*/*")) if p.is_symlink()]
    for link in links:
        if os.path.isabs(os.readlink(link)):  # to the folder's own translation
            continue
        place = folder / link.relative_to(work)
        if place.is_symlink():
            place.unlink()
        elif place.exists():
            raise UserError(f"{place}: there already, and no link; rename it")
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(os.readlink(link))
