"""Where the workbench is: in a checkout, or installed as a package."""

from pathlib import Path

from twincheck import IN_A_CHECKOUT

ROOT = Path(__file__).resolve().parent.parent.parent
# What a process that imports the workbench has on its path, and nothing of it that is not meant.
PATH = ROOT if IN_A_CHECKOUT else ROOT / "alone"
FAKE_DATA = ROOT / "fake_data"
FAKE_DATA_SEED = 0  # the seed that the arrays in fake_data/ were made with


def for_logs() -> Path:
    """The folder in which results are kept where nobody names one."""
    return ROOT if IN_A_CHECKOUT else Path.cwd()
