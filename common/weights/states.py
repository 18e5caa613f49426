"""State dicts in files, as one process leaves them for another, and whether one fits a model.

NumPy only.  A state is a dict of arrays with torch's names and shapes; layout.py, beside this file,
converts it to Paddle's.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from common.logs.pickle_machine import printable
from common.pair.pairs import TRAINED_LIKE
from common.system.errors import UserError
from common.system.files import whole
from common.system.json_file import load_json, write_json
from common.system.npz import read_npz
from common.weights.layers import Owner


def save_state(
    path: Path, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner] | None = None
) -> None:
    """Write a torch-named state dict as .npz, and the owners of its entries beside it as .json.

    Both appear whole or not at all, since another process reads them.
    """
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **state)
    if owners is not None:
        save_owners(path.with_suffix(".json"), owners)


def save_owners(path: Path, owners: Mapping[str, Owner]) -> None:
    """Write the owners of a model's entries, for `load_owners`."""
    write_json(path, {key: list(owner) for key, owner in owners.items()})


def load_owners(path: Path) -> dict[str, Owner]:
    """The owners that `save_owners` wrote; UserError for any other file."""
    path = path.with_suffix(".json")
    owners = {}
    for key, row in load_json(path).items():
        kinds = [type(value) for value in row] if isinstance(row, list) else []
        fits = kinds[:7] == [str, str, list, bool, str, list, str] and len(kinds) == 8
        if not fits or any(type(n) is not int for n in row[2] + [row[7] or 0]):
            raise UserError(f"{path}: refused: {printable(key)} is no entry of a state dict")
        owners[key] = Owner(*row[:2], tuple(row[2]), *row[3:5], tuple(row[5]), *row[6:])
    return owners


def load_state(path: Path, may_be_empty: bool = False) -> dict[str, np.ndarray]:
    """Read a state dict from .npz; nothing in it is ever executed.

    may_be_empty  as that of a model without weights is

    Raises UserError where the file is missing, empty, cut short or of another kind.
    """
    try:
        state = read_npz(path)
    except FileNotFoundError:
        raise UserError(
            f"--weights {path}: there is no such file; give a .npz, or {TRAINED_LIKE}"
        ) from None
    except (ValueError, UserError) as error:
        raise UserError(
            f"--weights {path}: not a readable .npz of named arrays ({error})"
        ) from None
    if not state and not may_be_empty:
        raise UserError(f"--weights {path}: the file holds no array")
    return state


def check_state(path: object, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner]) -> None:
    """Raise UserError unless the state has the model's keys, shapes and ties; both lists named."""
    missing = sorted(set(owners) - set(state))
    surplus = sorted(set(state) - set(owners))
    shapes = [
        f"{key} is {list(state[key].shape)}, the model has {list(owners[key].shape)}"
        for key in sorted(set(state) & set(owners))
        if tuple(state[key].shape) != owners[key].shape
    ]
    problems = []
    if missing:
        problems.append(f"missing: {', '.join(missing)}")
    if surplus:
        problems.append(f"not in the model: {', '.join(surplus)}")
    problems += shapes
    for key in sorted(set(state) & set(owners)):
        first = owners[key].same_as
        if first in state and not np.array_equal(state[key], state[first], equal_nan=True):
            problems.append(f"{first} and {key} are one tensor in the model, and differ here")
    if problems:
        raise UserError(f"--weights {path} does not fit the model; {'; '.join(problems)}")
