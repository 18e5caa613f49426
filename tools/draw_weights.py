"""Weights for a model that has none: drawn, and written as safetensors, a tensor at a time.

    python -m tools.draw_weights OUT --model NAME|FOLDER [--preset NAME] [--seed N]
        [--shard-bytes N] [--torch-python PATH]

OUT is a new folder: model.safetensors, or shards of at most so many bytes (2e9) and their index.
The torch side builds the model without values and says which entries it has.  A matrix gets
N(0, 1) / sqrt(its fan-in), a vector called weight 1 + 0.1 N(0, 1), any other 0.1 N(0, 1), and a
padding row is 0; all float32.  Nothing as large as the model is ever in memory.
`twincheck certificate --offload --weights OUT` then says that they are what both sides run.

Exit status: 0 written, 2 not.
"""

import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twincheck.common.check.options import Parser, positive
from twincheck.common.pair.pairs import load_pair, python_for
from twincheck.common.pair.tape import Tape
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.folders import put_in_place
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.weights.checkpoint import FOLDER, describe
from twincheck.common.weights.layers import Owner, count_values

SHARD_BYTES = 2 * 10**9


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__, prog="python -m tools.draw_weights")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder that is not there yet")
    parser.take("model", "preset", "seed")
    parser.add_argument(
        "--shard-bytes",
        type=positive,
        default=SHARD_BYTES,
        metavar="N",
        help="of a file at most, where it holds several tensors: --shard-bytes 5000000000",
    )
    given = parser.take("torch-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _draw(given))


def _draw(given) -> int:
    if len(given.model or ()) != 1:
        raise UserError("--model: name the one model that the weights are for")
    if given.out.exists():
        raise UserError(f"{given.out}: it is there already: name a folder that is not")
    pair = load_pair(given.model[0])
    pair.config(given.preset)
    given.out.absolute().parent.mkdir(parents=True, exist_ok=True)
    python = python_for("torch", given.torch_python, [pair])
    with tempfile.TemporaryDirectory(prefix=".draw-", dir=given.out.absolute().parent) as name:
        work, made = Path(name), Path(name) / "made"
        (work / FOLDER).mkdir()
        owners = describe("torch", pair, python, given.preset, work, offload=True)
        made.mkdir()
        files = write_drawn(made, owners, given.seed, given.shard_bytes)
        put_in_place(made, given.out)
    values = count_values(owners)
    report.say(f"written: {given.out}, {files} file{'s' * (files > 1)}, {values:,} values")
    return 0


def write_drawn(folder: Path, owners: Mapping[str, Owner], seed: int, shard_bytes: int) -> int:
    """Draw and write the parameters of a model; returns how many files they are in.

    Raises UserError for a model with buffers, whose values are not to be drawn.
    """
    buffers = [key for key, owner in owners.items() if not owner.parameter]
    if buffers:
        raise UserError(f"{buffers[0]} is a buffer: its value is the model's, and none to be drawn")
    shards: list[list[str]] = [[]]
    size = 0
    for key in (key for key, owner in owners.items() if owner.same_as == key):
        more = 4 * math.prod(owners[key].shape)
        if shards[-1] and size + more > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(key)
        size += more
    names = {}
    for i, keys in enumerate(shards, 1):
        name = "model.safetensors"
        if len(shards) > 1:
            name = f"model-{i:05}-of-{len(shards):05}.safetensors"
        names |= dict.fromkeys(keys, name)
        _write_file(folder / name, keys, owners, Tape(seed))
    if len(shards) > 1:
        total = 4 * count_values(owners)
        index = {"metadata": {"total_size": total}, "weight_map": names}
        write_json(folder / "model.safetensors.index.json", index)
    return len(shards)


def _write_file(path: Path, keys: Sequence[str], owners: Mapping[str, Owner], tape: Tape) -> None:
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    end = 0
    for key in keys:
        shape = owners[key].shape
        start, end = end, end + 4 * math.prod(shape)
        header[key] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for key in keys:
            file.write(memoryview(drawn(tape, key, owners[key]).reshape(-1).view(np.uint8)))


def drawn(tape: Tape, key: str, owner: Owner) -> np.ndarray:
    """A parameter's values, float32."""
    values = tape.normal_in_blocks(f"drawn/{key}", 0, owner.shape)
    if len(owner.shape) > 1:
        values *= np.float32(1.0 / math.sqrt(math.prod(owner.shape[1:])))
    else:
        values *= np.float32(0.1)
        values += np.float32(owner.local == "weight")  # a gain
    if owner.padding is not None:
        values[owner.padding] = 0.0
    return values


if __name__ == "__main__":
    sys.exit(main())
