"""Where this checkout is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE_DATA = ROOT / "fake_data"
FAKE_DATA_SEED = 0  # the seed that the arrays in fake_data/ were made with
