"""Make the small data in this folder: seeded, hashed, at the edges.

    python -m fake_data.gen_fake_data            write the files and SHA256SUMS
    python -m fake_data.gen_fake_data --check    say whether they are what would be written

MODEL.npz is what steps 1, 3 and 4 feed to both sides: CASE/INPUT of a built-in model's default
preset, made by make_inputs of its case.py.  The others are small files in the form of the data sets
that presets train on (common/pair/sources), to try `--data` with.
"""

import gzip
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twincheck.common.check.options import Parser
from twincheck.common.pair.data import load_arrays, save_arrays
from twincheck.common.pair.pairs import built_in_models, load_pair
from twincheck.common.report.terminal import say
from twincheck.common.system.checkout import FAKE_DATA_SEED
from twincheck.common.system.errors import UserError
from twincheck.common.system.hashes import arrays_sha256

HERE = Path(__file__).resolve().parent
# Written once by like_real.py of commit 7e0e837d.
LIKE_REAL = (
    *("reviews_Electronics_5.json.gz", "enwik8.txt", "ag_news/train.csv", "ag_news/test.csv"),
    "seasons.csv",
)


def make_fake_data(model: str) -> dict[str, np.ndarray]:
    """CASE/INPUT -> array for every case of a built-in model's default preset."""
    pair = load_pair(model)
    return {
        f"{case.name}/{key}": values
        for case in pair.cases("default")
        for key, values in pair.make_inputs(case, FAKE_DATA_SEED).items()
    }


def content_of(path: Path) -> bytes:
    """A file's content, unpacked: how gzip packs it depends on zlib's version."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check; returns 0, or 1 where --check finds a difference."""
    parser = Parser(__doc__, prog="python -m fake_data.gen_fake_data")
    parser.add_argument("--check", action="store_true", help="write nothing: are they as made?")
    options = parser.parse_args(arguments)
    made = {model: make_fake_data(model) for model in built_in_models()}
    hashes = {f"{model}.npz": arrays_sha256(arrays) for model, arrays in made.items()}
    hashes |= {name: hashlib.sha256(content_of(HERE / name)).hexdigest() for name in LIKE_REAL}
    sums = "".join(f"{digest}  {name}\n" for name, digest in hashes.items())
    if options.check:
        same = (HERE / "SHA256SUMS").read_text() == sums and are_there(made)
        say("fake data: as generated" if same else "fake data: differs from what is generated")
        return 0 if same else 1
    for model, arrays in made.items():
        save_arrays(HERE / f"{model}.npz", arrays)
    (HERE / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    return 0


def are_there(made: dict[str, dict[str, np.ndarray]]) -> bool:
    """True if the files in this folder hold these arrays."""
    try:
        stored = {model: load_arrays(HERE / f"{model}.npz") for model in made}
        return all(arrays_sha256(stored[model]) == arrays_sha256(made[model]) for model in made)
    except (OSError, UserError):
        return False


if __name__ == "__main__":
    sys.exit(main())
