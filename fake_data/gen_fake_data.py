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
from twincheck.fake_data.like_real import make_ag_news, make_enwik8, make_reviews, make_seasons

HERE = Path(__file__).resolve().parent


def make_fake_data(model: str) -> dict[str, np.ndarray]:
    """CASE/INPUT -> array for every case of a built-in model's default preset."""
    pair = load_pair(model)
    return {
        f"{case.name}/{key}": values
        for case in pair.cases("default")
        for key, values in pair.make_inputs(case, FAKE_DATA_SEED).items()
    }


def make_like_real() -> dict[str, bytes]:
    """File -> content, unpacked, of the small files in the form of real data sets."""
    return {
        "reviews_Electronics_5.json.gz": make_reviews(FAKE_DATA_SEED),
        "enwik8.txt": make_enwik8(FAKE_DATA_SEED),
        "ag_news/train.csv": make_ag_news(FAKE_DATA_SEED, "train", 200),
        "ag_news/test.csv": make_ag_news(FAKE_DATA_SEED, "test", 60),
        "seasons.csv": make_seasons(FAKE_DATA_SEED),
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
    texts = make_like_real()
    hashes = {f"{model}.npz": arrays_sha256(arrays) for model, arrays in made.items()}
    hashes |= {name: hashlib.sha256(content).hexdigest() for name, content in texts.items()}
    sums = "".join(f"{digest}  {name}\n" for name, digest in hashes.items())
    if options.check:
        same = (HERE / "SHA256SUMS").read_text() == sums and are_there(made, texts)
        say("fake data: as generated" if same else "fake data: differs from what is generated")
        return 0 if same else 1
    for model, arrays in made.items():
        save_arrays(HERE / f"{model}.npz", arrays)
    for name, content in texts.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    (HERE / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    return 0


def are_there(made: dict[str, dict[str, np.ndarray]], texts: dict[str, bytes]) -> bool:
    """True if the files in this folder hold these arrays and contents."""
    try:
        stored = {model: load_arrays(HERE / f"{model}.npz") for model in made}
        same = all(arrays_sha256(stored[model]) == arrays_sha256(made[model]) for model in made)
        return same and all(content_of(HERE / name) == texts[name] for name in texts)
    except (OSError, UserError):
        return False


if __name__ == "__main__":
    sys.exit(main())
