"""Files of weights that Hugging Face, Paddle and this workbench write: found and read.

    safetensors      torch's layout; Paddle's, where its metadata's format is pd or np (PaddleNLP's)
    .bin, .pt        torch.save, zip or legacy (common/weights/saved_by_torch.py)
    .pdparams        paddle.save: Paddle's layout
    .npz             torch's names and layout (common/system/npz.py)
    …index.json      Hugging Face's index of shards, each a safetensors or .bin file
    a folder         that holds one of these, most likely with the published config.json

A file's first bytes say what it is, not its name.  Nothing is ever executed.  NumPy only;
the check's process imports neither framework.
"""

import io
import os
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from twincheck.common.logs.pickle_machine import Refused, printable
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.json_file import load_json
from twincheck.common.system.npz import read_npz
from twincheck.common.weights.mapped import LONGEST_HEADER, Mapped, safetensors_places
from twincheck.common.weights.saved_by_torch import (
    LEGACY_MAGIC,
    read_torch_legacy,
    read_torch_zip,
    widened,
)
from twincheck.common.weights.state_pickle import PaddleMachine, paddle_arrays, read_stored

CONFIG = "config.json"
# In the order of preference, which is transformers': safetensors before .bin.
KNOWN = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model_state.pdparams",
    "weights.npz",
)
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".pdparams", ".npz")
# Files beside the weights of a training run that are no weights.
_OTHERS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler")
GIVE = f"give a file ({', '.join(SUFFIXES)}, …index.json) or a folder that holds one"
_OF_PADDLE = ("pd", "np")  # formats in a safetensors file's metadata
# What zipfile, NumPy and the system raise for a damaged file.
_DAMAGE = (ValueError, OSError, EOFError, ArithmeticError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of the checkpoint that --weights names."""

    option: str  # --weights as the user wrote it
    path: Path  # the file of weights, or the index of its shards
    config: Path | None  # config.json in the folder, or beside the file
    passed_over: tuple[str, ...] = ()  # further files of weights, which are not read


@dataclass
class Stored:
    """What a file of weights holds."""

    state: dict[str, np.ndarray] | Mapped
    kind: str  # in words
    paddle: bool = False  # Paddle's names and layout, not torch's
    widened: list[str] = field(default_factory=list)  # bfloat16, now float32
    shards: int = 0  # how many files an index names


def find(weights: str) -> CheckpointFiles:
    """The parts of the checkpoint that --weights names; UserError where there are none."""
    path = Path(weights)
    if path.is_dir():
        return _in_folder(weights, path)
    if not path.exists():
        raise UserError(
            f"--weights {weights}: there is no such file or folder; {GIVE}, or write trained-like"
        )
    config = path.parent / CONFIG
    return CheckpointFiles(weights, path, config if config.is_file() else None)


def _in_folder(weights: str, folder: Path) -> CheckpointFiles:
    files = [name for name in KNOWN if (folder / name).is_file()]
    if not files:
        files = sorted(
            path.name
            for path in folder.iterdir()
            if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith(_OTHERS)
        )
        if len(files) > 1:
            raise UserError(
                f"--weights {weights}: this folder holds {', '.join(files)}: name the one to read"
            )
    if not files:
        names = sorted(path.name for path in folder.iterdir())
        content = f"it holds {', '.join(names[:8])}{', …' if names[8:] else ''}"
        content = content if names else "it is empty"
        raise UserError(
            f"--weights {weights}: no file of weights in this folder ({content}); {GIVE}, such as "
            f"{', '.join(KNOWN[:3])}"
        )
    config = folder / CONFIG if (folder / CONFIG).is_file() else None
    return CheckpointFiles(weights, folder / files[0], config, tuple(files[1:]))


def parts(weights: str) -> list[Path]:
    """Every file that a checkpoint is read from: its weights, shards and configuration."""
    files = find(weights)
    shards = [files.path.parent / name for name in _shards(files)[0]] if _is_index(files) else []
    return [files.path, *shards, *filter(None, [files.config])]


def read(files: CheckpointFiles, mapped: bool = False) -> Stored:
    """The arrays of a checkpoint; UserError, in one sentence, for whatever cannot be read.

    mapped   they stay in their files, which must be safetensors
    """
    if not _is_index(files):
        return _read_file(files.path, f"--weights {files.option}", mapped)
    names, wanted = _shards(files)
    whole = Stored({}, "", shards=len(names))
    for name in names:
        path = files.path.parent / name
        if not path.is_file():
            raise UserError(
                f"--weights {files.option}: {files.path.name} names the shard {printable(name)}, "
                "which is not there: fetch it, or take the folder as it was published"
            )
        part = _read_file(path, f"--weights {files.option}: the shard {name}", mapped)
        twice = sorted(set(whole.state) & set(part.state))
        if twice:
            raise UserError(f"--weights {files.option}: two shards hold {', '.join(twice)}")
        whole.state |= part.state.places if mapped else part.state
        whole.kind, whole.paddle = part.kind, part.paddle
        whole.widened += part.widened
    absent = sorted(set(wanted) - set(whole.state))
    if absent:
        raise UserError(
            f"--weights {files.option}: {files.path.name} names {', '.join(absent)}, which no "
            "shard holds: take the folder as it was published"
        )
    return replace(whole, state=Mapped(whole.state)) if mapped else whole


def _is_index(files: CheckpointFiles) -> bool:
    return files.path.name.endswith(".index.json")


def _shards(files: CheckpointFiles) -> tuple[list[str], list[str]]:
    """The shards' names and the weights' of an index; neither may lead out of its folder."""
    table = load_json(files.path).get("weight_map")
    plain = isinstance(table, dict) and table and all(isinstance(n, str) for n in table.values())
    if not plain or any(Path(name).name != name for name in table.values()):
        raise UserError(
            f"--weights {files.option}: {files.path.name} has no weight_map of names to files "
            "beside it, as Hugging Face's index has"
        )
    return sorted(set(table.values())), list(table)


def _read_file(path: Path, source: str, mapped: bool = False) -> Stored:
    """One file; `source` begins the sentence that says what is wrong with it."""
    with open_plain(path, links=True) as file:
        start = file.read(512)
        file.seek(0)
        _refuse_other(start, source)
        try:
            if mapped and not _is_safetensors(start):
                write = to_type("converter", "--out", "model.safetensors", "--to", "torch")
                raise UserError(
                    f"{source}: --offload maps safetensors alone, and {path.name} is none: write "
                    f"it as such, with `{write}`"
                )
            stored = _by_content(file, start, path, mapped)
            if stored.state:
                return stored
            problem = "refused: a file that holds no weights"
        except Refused as error:
            problem = f"refused: {error}"
        except TypeError:
            problem = "refused: a call with other arguments than the framework's own"
        except MemoryError:
            problem = "its arrays do not fit into memory"
        except zipfile.BadZipFile as error:
            problem = f"cut short or damaged ({error})"
        except _DAMAGE as error:
            problem = f"cut short or damaged ({' '.join(str(error).split())[:200]})"
    raise UserError(
        f"{source}: {path.name} is not a readable file of weights: {problem}; take or write it "
        "once more"
    )


def _refuse_other(start: bytes, source: str) -> None:
    """Raise UserError for what is often downloaded instead of a file of weights."""
    if not start:
        raise UserError(
            f"{source}: not a readable file of weights: it is empty; take or write it once more"
        )
    if start.startswith(b"version https://git-lfs"):
        raise UserError(
            f"{source}: this is a git-lfs pointer, not the weights: run git lfs pull in its folder"
        )
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise UserError(
            f"{source}: this is a web page, most likely an error's, not the weights: download the "
            "file itself"
        )


def _by_content(file: io.BufferedReader, start: bytes, path: Path, mapped: bool) -> Stored:
    if start.startswith(b"PK"):
        with zipfile.ZipFile(file) as archive:
            if any(name.split("/", 1)[-1] == "data.pkl" for name in archive.namelist()):
                state, wide = read_torch_zip(file, archive)
                return Stored(state, "torch.save's zip", widened=wide)
        return Stored(read_npz(path), "NumPy's .npz")
    if start.startswith(LEGACY_MAGIC):
        state, wide = read_torch_legacy(file)
        return Stored(state, "torch.save's legacy format", widened=wide)
    if _is_safetensors(start):
        return _safetensors(path, mapped)
    if start[:1] == b"\x80":
        return _pdparams(file)
    raise Refused("no safetensors, torch.save, paddle.save or .npz file")


def _is_safetensors(start: bytes) -> bool:
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") < LONGEST_HEADER


def _safetensors(path: Path, mapped: bool) -> Stored:
    places, metadata = safetensors_places(path)
    paddle = metadata.get("format") in _OF_PADDLE
    wide = [name for name, place in places.items() if place.dtype == "BF16"]
    if not mapped:
        state = {name: place.read() for name, place in places.items()}
        return Stored(state, "safetensors", paddle, wide)
    if paddle:
        raise Refused(
            "it has Paddle's layout, and --offload maps torch's: write it once with "
            f"`{to_type('converter', '--to', 'torch')}`"
        )
    return Stored(Mapped(places), "safetensors, mapped", widened=wide)


def _pdparams(file: io.BufferedReader) -> Stored:
    size = os.fstat(file.fileno()).st_size
    arrays = paddle_arrays(PaddleMachine(file, size).run())
    if sum(array.data.count for array in arrays.values()) > max(1 << 26, 16 * size):
        raise Refused("the same arrays under key after key, far more than the file's own size")
    stored = Stored({}, "paddle.save's", paddle=True)
    for name, array in arrays.items():
        values = np.frombuffer(read_stored(file, array), array.dtype)
        values = values.reshape(array.shape, order="F" if array.fortran else "C")
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        if values.dtype == np.uint16:  # bfloat16 in Paddle, which has no uint16
            values = widened(values)
            stored.widened.append(name)
        stored.state[name] = values.reshape(array.shape)
    return stored
