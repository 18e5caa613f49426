"""Make the small arrays that steps 1, 3 and 4 feed to both sides: seeded, hashed, at the edges.

    python fake_data/gen_fake_data.py            write MODEL.npz and SHA256SUMS
    python fake_data/gen_fake_data.py --check    say whether they are what would be written

Each array is CASE/INPUT of a built-in model's default preset, made by make_inputs of its case.py.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

from common.data import save_arrays  # noqa: E402
from common.logs import arrays_sha256  # noqa: E402
from common.pairs import FAKE_DATA_SEED, built_in_models, load_pair  # noqa: E402


def make_fake_data(model: str) -> dict[str, np.ndarray]:
    """CASE/INPUT -> array for every case of a built-in model's default preset."""
    pair = load_pair(model)
    return {
        f"{case.name}/{key}": values
        for case in pair.cases("default")
        for key, values in pair.make_inputs(case, FAKE_DATA_SEED).items()
    }


def main(arguments: list[str]) -> int:
    """Write or check; returns 0, or 1 where --check finds a difference."""
    made = {model: make_fake_data(model) for model in built_in_models()}
    sums = "".join(f"{arrays_sha256(arrays)}  {model}.npz\n" for model, arrays in made.items())
    if "--check" in arguments:
        same = (HERE / "SHA256SUMS").read_text() == sums
        print("fake data: as generated" if same else "fake data: differs from what is generated")
        return 0 if same else 1
    for model, arrays in made.items():
        save_arrays(HERE / f"{model}.npz", arrays)
    (HERE / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
