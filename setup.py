"""The package: each folder of the checkout below twincheck/, where its modules' names look for it.

All else about it is in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
FOLDERS = ("common", "extras", "examples", "fake_data", "docs")
LEFT_OUT = {"tests", "log", "__pycache__"}


def folders_below(top: Path) -> list[Path]:
    """A folder and those below it that hold files which a package needs."""
    below = [top, *(path for path in sorted(top.rglob("*")) if path.is_dir())]
    return [
        path
        for path in below
        if LEFT_OUT.isdisjoint(path.relative_to(ROOT).parts)
        and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        and any(each.is_file() for each in path.iterdir())
    ]


tops = [ROOT / name for name in FOLDERS] + sorted(ROOT.glob("step*_*"))
places = {
    ".".join(("twincheck", *path.relative_to(ROOT).parts)): str(path.relative_to(ROOT))
    for top in tops
    for path in folders_below(top)
}
places |= {"twincheck": "twincheck", "twincheck.alone.twincheck": "twincheck/alone/twincheck"}
if "editable_wheel" in sys.argv:
    # In place twincheck/__init__.py finds the folders, and a copy that lacks one is not to be given
    # this checkout's.
    places = {"twincheck": "twincheck"}
setup(packages=list(places), package_dir=places, package_data={"": ["*"]})
