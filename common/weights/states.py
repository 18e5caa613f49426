"""State dicts as one process leaves them for another, and whether one fits a model.

    save_state, load_state    in a file, .npz
    States                    of one model's run: a large one only while it runs, and mapped

NumPy only.  A state is a dict of arrays with torch's names and shapes; layout.py, beside this file,
converts it to Paddle's.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

import numpy as np

from twincheck.common.pair.pairs import TRAINED_LIKE
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.json_kinds import check_of, record
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable
from twincheck.common.weights.layers import Owner

# A state of more bytes is not kept, and is mapped.  What is smaller takes no time and little disk,
# and can be read with NumPy afterwards.
LARGE_BYTES = 1 << 25
_INDEX = "index.json"
_IS_OWNER = record({name: check_of(of) for name, of in get_type_hints(Owner).items()})


class States:
    """The states of one model's run that one process leaves for another, such as its weights.

    A path of ResultFolder names each, and whoever has the same request finds it there.  What is
    large lies in `folder`, a file each array, and is mapped, not read: all processes have it once.
    The rest, and everything where there is no such folder, is a file at the path.

    folder   one that goes with the check
    """

    def __init__(self, folder: str | None = None):
        self._folder = folder
        self._known: dict[Path, Mapping[str, np.ndarray]] = {}
        self._hashes: dict[tuple, tuple[str, dict]] = {}

    def save(
        self,
        path: Path,
        arrays: Mapping[str, np.ndarray],
        owners: Mapping[str, Owner] | None = None,
    ) -> None:
        """Leave named arrays for other processes; the owners of a model's entries always in a file.

        They count instead of what was there before.
        """
        self._known.pop(path, None)
        if owners is not None:
            save_owners(path.with_suffix(".json"), owners)
        if self._folder is None or bytes_of(arrays) <= LARGE_BYTES:
            save_state(path, arrays)
            return
        path.unlink(missing_ok=True)
        folder = self._of(path)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        numbers: dict[tuple, int] = {}  # an array that has several keys is there once
        index = {}
        for key, values in arrays.items():
            same = values.__array_interface__["data"][0], values.shape, values.strides
            index[key] = numbers.setdefault(same, len(numbers))
            if index[key] == len(numbers) - 1:
                np.save(folder / f"{index[key]}.npy", values)
        write_json(folder / _INDEX, index)

    def load(self, path: Path, may_be_empty: bool = False) -> Mapping[str, np.ndarray]:
        """The arrays that were left there, read-only; read once.

        Raises UserError where there are none, or where they cannot be read.
        """
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._read(path, may_be_empty)
            for values in known.values():
                values.flags.writeable = False
        return known

    def hold(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        """Let this process alone find arrays there, until they are saved."""
        self._known[path] = arrays

    def sha256(self, arrays: Mapping[str, np.ndarray]) -> str:
        """SHA-256 of arrays that were loaded here, such as those of all cases; computed once."""
        which = tuple((key, id(values)) for key, values in arrays.items())
        if which not in self._hashes:
            self._hashes[which] = arrays_sha256(arrays), arrays  # kept: an id is nobody else's
        return self._hashes[which][0]

    def _read(self, path: Path, may_be_empty: bool) -> dict[str, np.ndarray]:
        if path.is_file():
            return load_state(path, may_be_empty)
        folder = self._of(path)
        if not (folder / _INDEX).is_file():
            raise UserError(Kind.STATE_NOT_LEFT(path=str(path), size=LARGE_BYTES >> 20))
        index = load_json(folder / _INDEX)
        arrays = {n: np.load(folder / f"{n}.npy", mmap_mode="r") for n in set(index.values())}
        return {key: np.asarray(arrays[n]) for key, n in index.items()}

    def _of(self, path: Path) -> Path:
        """Return the folder of a file's arrays: one for all folders of one model's run."""
        return Path(self._folder or "", path.parent.name, path.stem)


def bytes_of(arrays: Mapping[str, np.ndarray]) -> int:
    """Return how many bytes all arrays have together."""
    return sum(np.asarray(values).nbytes for values in arrays.values())


def save_state(path: Path, state: Mapping[str, np.ndarray]) -> None:
    """Write a torch-named state dict as .npz, whole or not at all: another process reads it."""
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **state)


def save_owners(path: Path, owners: Mapping[str, Owner]) -> None:
    """Write the owners of a model's entries, for `load_owners`."""
    write_json(path, {key: owner._asdict() for key, owner in owners.items()})


def load_owners(path: Path) -> dict[str, Owner]:
    """The owners that `save_owners` wrote; UserError for any other file."""
    path, owners = path.with_suffix(".json"), {}
    for key, told in load_json(path).items():
        if not _IS_OWNER(told):
            raise UserError(Kind.OWNERS_REFUSED(path=str(path), key=printable(key)))
        lists = {name: tuple(told[name]) for name in ("shape", "within")}
        owners[key] = Owner(**told | lists)
    return owners


def load_state(path: Path, may_be_empty: bool = False) -> dict[str, np.ndarray]:
    """Read a state dict from .npz; nothing in it is ever executed.

    may_be_empty  as that of a model without weights is

    Raises UserError where the file is missing, empty, cut short or of another kind.
    """
    try:
        state = read_npz(path)
    except FileNotFoundError:
        raise UserError(Kind.STATE_MISSING(path=str(path), word=TRAINED_LIKE)) from None
    except (ValueError, UserError) as error:
        told = {"path": str(path), "reason": str(error)}
        raise UserError(Kind.STATE_UNREADABLE(**told)) from None
    if not state and not may_be_empty:
        raise UserError(Kind.STATE_EMPTY(path=str(path)))
    return state


def check_state(path: object, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner]) -> None:
    """Raise UserError unless the state has the model's keys, shapes and ties; both lists named."""
    missing = sorted(set(owners) - set(state))
    surplus = sorted(set(state) - set(owners))
    problems = [Kind.STATE_LACKS(keys=missing)] if missing else []
    problems += [Kind.STATE_HAS_MORE(keys=surplus)] if surplus else []
    for key in sorted(set(state) & set(owners)):
        shape, needed = list(state[key].shape), list(owners[key].shape)
        if shape != needed:
            problems.append(Kind.STATE_SHAPE(key=key, shape=str(shape), needed=str(needed)))
    for key in sorted(set(state) & set(owners)):
        first = owners[key].same_as
        if first in state and not np.array_equal(state[key], state[first], equal_nan=True):
            problems.append(Kind.STATE_UNTIED(key=first, other=key))
    if problems:
        raise UserError(Kind.STATE_FITS_NOT(path=str(path), problems=problems))
