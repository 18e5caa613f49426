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
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.logs.pickle_machine import Refused
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.json_file import load_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.system.words import printable
from twincheck.common.weights.safetensors import LONGEST_HEADER, read_safetensors
from twincheck.common.weights.saved_by_torch import (
    LEGACY_MAGIC,
    read_torch_legacy,
    read_torch_zip,
    widened,
)
from twincheck.common.weights.state_pickle import PaddleMachine, paddle_arrays

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
    """The contents of a file of weights."""

    state: dict[str, np.ndarray]
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
        give = Kind.WEIGHTS_TO_GIVE(suffixes=list(SUFFIXES))
        raise UserError(Kind.WEIGHTS_MISSING(weights=weights, give=give))
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
            raise UserError(Kind.WEIGHTS_SEVERAL(weights=weights, files=files))
    if not files:
        names = sorted(path.name for path in folder.iterdir())
        content = Kind.FOLDER_HOLDS(names=names[:8] + ["…"] * bool(names[8:]))
        told = {"weights": weights, "content": content if names else Kind.FOLDER_EMPTY()}
        told |= {"give": Kind.WEIGHTS_TO_GIVE(suffixes=list(SUFFIXES)), "names": list(KNOWN[:3])}
        raise UserError(Kind.WEIGHTS_NOT_IN_FOLDER(**told))
    config = folder / CONFIG if (folder / CONFIG).is_file() else None
    return CheckpointFiles(weights, folder / files[0], config, tuple(files[1:]))


def parts(weights: str) -> list[Path]:
    """Every file that a checkpoint is read from: its weights, shards and configuration."""
    files = find(weights)
    shards = [files.path.parent / name for name in _shards(files)[0]] if _is_index(files) else []
    return [files.path, *shards, *filter(None, [files.config])]


def read(files: CheckpointFiles) -> Stored:
    """The arrays of a checkpoint; UserError, in one sentence, for whatever cannot be read."""
    source = f"--weights {files.option}"
    if not _is_index(files):
        return _read_file(files.path, source)
    told = {"source": source, "index": files.path.name}
    names, wanted = _shards(files)
    whole = Stored({}, "", shards=len(names))
    for name in names:
        path = files.path.parent / name
        if not path.is_file():
            raise UserError(Kind.SHARD_MISSING(**told, name=printable(name)))
        shard = Kind.SHARD_OF_OPTION(weights=files.option, name=name)
        part = _read_file(path, shard)
        twice = sorted(set(whole.state) & set(part.state))
        if twice:
            raise UserError(Kind.SHARDS_HOLD_BOTH(source=source, names=twice))
        whole.state |= part.state
        whole.kind, whole.paddle = part.kind, part.paddle
        whole.widened += part.widened
    absent = sorted(set(wanted) - set(whole.state))
    if absent:
        raise UserError(Kind.SHARDS_LACK(**told, names=absent))
    return whole


def _is_index(files: CheckpointFiles) -> bool:
    return files.path.name.endswith(".index.json")


def _shards(files: CheckpointFiles) -> tuple[list[str], list[str]]:
    """The shards' names and the weights' of an index; neither may lead out of its folder."""
    table = load_json(files.path).get("weight_map")
    plain = isinstance(table, dict) and table and all(isinstance(n, str) for n in table.values())
    if not plain or any(Path(name).name != name for name in table.values()):
        source = f"--weights {files.option}"
        raise UserError(Kind.SHARDS_UNMAPPED(source=source, index=files.path.name))
    return sorted(set(table.values())), list(table)


def _read_file(path: Path, source: str) -> Stored:
    """One file; `source` begins the sentence that says what is wrong with it."""
    with open_plain(path, links=True) as file:
        start = file.read(512)
        file.seek(0)
        _refuse_other(start, source)
        try:
            stored = _by_content(file, start, path)
            if stored.state:
                return stored
            problem = Kind.FILE_REFUSED(reason=Kind.HOLDS_NO_WEIGHTS())
        except Refused as error:
            problem = Kind.FILE_REFUSED(reason=str(error))
        except TypeError:
            problem = Kind.FILE_REFUSED(reason=Kind.CALL_WITH_OTHERS())
        except MemoryError:
            problem = Kind.ARRAYS_BEYOND_MEMORY()
        except zipfile.BadZipFile as error:
            problem = Kind.FILE_DAMAGED(reason=str(error))
        except _DAMAGE as error:
            said = str(error)
            said = said if isinstance(said, Reason) else " ".join(said.split())[:200]
            problem = Kind.FILE_DAMAGED(reason=said)
    told = {"source": source, "file": path.name, "reason": problem}
    raise UserError(Kind.WEIGHTS_UNREADABLE(**told))


def _refuse_other(start: bytes, source: str) -> None:
    """Raise UserError for what is often downloaded instead of a file of weights."""
    if not start:
        raise UserError(Kind.WEIGHTS_EMPTY(source=source))
    if start.startswith(b"version https://git-lfs"):
        raise UserError(Kind.WEIGHTS_ARE_POINTER(source=source))
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise UserError(Kind.WEIGHTS_ARE_PAGE(source=source))


def _by_content(file: io.BufferedReader, start: bytes, path: Path) -> Stored:
    if start.startswith(b"PK"):
        with zipfile.ZipFile(file) as archive:
            if any(name.split("/", 1)[-1] == "data.pkl" for name in archive.namelist()):
                state, wide = read_torch_zip(file, archive)
                return Stored(state, Kind.FORM_TORCH_ZIP(), widened=wide)
        return Stored(read_npz(path), Kind.FORM_NPZ())
    if start.startswith(LEGACY_MAGIC):
        state, wide = read_torch_legacy(file)
        return Stored(state, Kind.FORM_TORCH_LEGACY(), widened=wide)
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < LONGEST_HEADER:
        return _safetensors(path)
    if start[:1] == b"\x80":
        return _pdparams(file)
    raise Refused(Kind.NO_WEIGHTS_FILE())


def _safetensors(path: Path) -> Stored:
    state, wide, metadata = read_safetensors(path)
    return Stored(state, Kind.FORM_SAFETENSORS(), metadata.get("format") in _OF_PADDLE, wide)


def _pdparams(file: io.BufferedReader) -> Stored:
    size = os.fstat(file.fileno()).st_size
    arrays = paddle_arrays(PaddleMachine(file, size).run())
    if sum(array.data.count for array in arrays.values()) > max(1 << 26, 16 * size):
        raise Refused(Kind.REFUSED_REUSE())
    stored = Stored({}, Kind.FORM_PADDLE(), paddle=True)
    for name, array in arrays.items():
        values = np.ascontiguousarray(array.read(file))
        if values.dtype == np.uint16:  # bfloat16 in Paddle, which has no uint16
            values = widened(values)
            stored.widened.append(name)
        stored.state[name] = values.reshape(array.shape)
    return stored
