"""Weights: where they come from, how they are kept between the two sides, and their certificate.

NumPy only.  A state is a dict of arrays with torch's names and shapes; layout.py, beside this file,
carries it over to Paddle.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from common.logs.pickle_machine import printable
from common.pair.pairs import STIRRED, TRAINED_LIKE
from common.pair.tape import Tape
from common.system.errors import UserError
from common.system.files import whole
from common.system.json_file import load_json, write_json
from common.system.npz import read_npz
from common.weights.layers import Owner
from common.weights.layout import Layout, SameLayout

_MEAN, _VARIANCE = "running_mean", "running_var"


def made(
    word: str,
    state: Mapping[str, np.ndarray],
    owners: Mapping[str, Owner],
    seed: int,
    gain: float = 1.0,
) -> dict[str, np.ndarray]:
    """The initial state changed by noise from the tape; ties stay tied, other buffers as they are.

    stirred        no bias stays 0 and no gain 1, so that a loss or a swap of them would show:
                   vectors get 0.1 N(0, 1), weights 0.5 N(0, 1) / sqrt(last axis)
    trained-like   heavy rows and large gains, as training makes them, and with them large
                   activations: a matrix's rows are scaled by `gain` exp(0.8 N(0, 1)), a norm's
                   gains by exp(0.6 N(0, 1)), other vectors get 0.3 N(0, 1)
    The running statistics of both are no longer 0 and 1.  A padding row, which no gradient reaches,
    is not stirred: Paddle's Embedding gives zeros for it whatever it holds.
    """
    draw = {STIRRED: _stirred, TRAINED_LIKE: partial(_trained_like, gain=gain)}[word]
    tape = Tape(seed)
    changed = {}
    for key, values in state.items():
        owner = owners[key]
        statistic = owner.local in (_MEAN, _VARIANCE) and bool(owner.kind)
        if values.dtype.kind != "f" or not (owner.parameter or statistic):
            changed[key] = values
        elif owner.same_as != key:
            changed[key] = changed[owner.same_as]
        else:
            changed[key] = draw(tape, key, values, owner)
            if owner.padding is not None:
                changed[key][owner.padding] = values[owner.padding]
    return changed


def _stirred(tape: Tape, key: str, values: np.ndarray, owner: Owner) -> np.ndarray:
    noise = tape.normal(f"stir/{key}", 0, values.shape)
    if owner.local == _VARIANCE:
        return (values * np.exp(0.3 * noise)).astype(values.dtype)
    size = 0.1 if values.ndim == 1 else 0.5 / np.sqrt(values.shape[-1] if values.ndim else 1)
    return values + (size * noise).astype(values.dtype)


def _trained_like(
    tape: Tape, key: str, values: np.ndarray, owner: Owner, gain: float
) -> np.ndarray:
    noise = tape.normal(f"trained-like/{key}", 0, values.shape[:1] + (1,) * (values.ndim - 1))
    if values.ndim > 1:
        return (values * np.exp(0.8 * noise)).astype(values.dtype) * values.dtype.type(gain)
    if owner.local == _VARIANCE or ("Norm" in owner.kind and owner.local == "weight"):
        return (values * np.exp(0.6 * noise)).astype(values.dtype)
    return (values + 0.3 * noise).astype(values.dtype)


def save_state(
    path: Path, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner] | None = None
) -> None:
    """Write a torch-named state dict as .npz, and beside it who owns what as .json.

    Both appear whole or not at all, since another process reads them.
    """
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **state)
    if owners is not None:
        save_owners(path.with_suffix(".json"), owners)


def save_owners(path: Path, owners: Mapping[str, Owner]) -> None:
    """Write who owns what, for `load_owners`."""
    write_json(path, {key: list(owner) for key, owner in owners.items()})


def load_owners(path: Path) -> dict[str, Owner]:
    """The owners that `save_state` wrote beside a state dict; UserError for anything else."""
    path = path.with_suffix(".json")
    owners = {}
    for key, row in load_json(path).items():
        kinds = [type(value) for value in row] if isinstance(row, list) else []
        fits = kinds[:7] == [str, str, list, bool, str, list, str] and len(kinds) == 8
        if not fits or any(type(n) is not int for n in row[2] + [row[7] or 0]):
            raise UserError(f"{path}: refused: {printable(key)} is no entry of a state dict")
        owners[key] = Owner(*row[:2], tuple(row[2]), *row[3:5], tuple(row[5]), *row[6:])
    return owners


def load_state(path: Path) -> dict[str, np.ndarray]:
    """Read a state dict from .npz; nothing in it is ever executed.

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
    if not state:
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


def changed(
    layout: Layout | SameLayout,
    entries: Iterable[tuple[str, np.ndarray]],
    state: Mapping[str, np.ndarray],
) -> list[str]:
    """Keys of a torch state that came back with other bits out of the model that holds it.

    entries     (key, array) as that model lists them, under the names and in the layout of its side
    """
    if isinstance(layout, Layout):
        entries = ((key, values) for key, values in entries if key in layout.entries)
    different = []
    for key, values in layout.as_torch(entries):
        expected = state[key]
        if expected.dtype.kind == "f":
            expected = expected.astype(values.dtype)
        same = expected.shape == values.shape and expected.dtype == values.dtype
        if not same or expected.tobytes() != values.tobytes():
            different.append(key)
    return different


def hidden_rows(layout: Layout, state: Mapping[str, np.ndarray]) -> list[str]:
    """Keys of a torch state whose padding row is not 0: Paddle's Embedding gives zeros for it."""
    padding = {
        torch_key: layout.paddle_owners[key].padding
        for key, entry in layout.entries.items()
        for torch_key in entry.torch_keys
    }
    return [key for key, row in padding.items() if row is not None and state[key][row].any()]


def goes_round(layout: Layout, paddle_state: Mapping[str, np.ndarray]) -> list[str]:
    """Keys of a Paddle state that come back with other bits from a way to torch and back."""
    back = layout.to_paddle(layout.to_torch(paddle_state))
    return [key for key, values in back.items() if values.tobytes() != paddle_state[key].tobytes()]
