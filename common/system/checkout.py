"""Where the workbench is: in a checkout, or installed as a package."""

import os
import re
from pathlib import Path

from twincheck import IN_A_CHECKOUT

ROOT = Path(__file__).resolve().parent.parent.parent
# What a process that imports the workbench has on its path, and nothing of it that is not meant.
PATH = ROOT if IN_A_CHECKOUT else ROOT / "alone"
_PACKAGES = re.compile(r".*/(site|dist)-packages/")
FAKE_DATA = ROOT / "fake_data"
FAKE_DATA_SEED = 0  # the seed that the arrays in fake_data/ were made with


def for_logs() -> Path:
    """The folder in which results are kept where nobody names one."""
    return ROOT if IN_A_CHECKOUT else Path.cwd()


def short_place(place: str, root: str = str(ROOT)) -> str:
    """A place below `root` without it, one in an installed package from the package on."""
    if place.startswith(f"{root}{os.sep}"):
        place = place[len(root) + 1 :]
    return _PACKAGES.sub("", place)
