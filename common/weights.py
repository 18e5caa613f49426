"""Weights: carried from torch to Paddle by the kind of layer that owns them, with a certificate.

NumPy only.  A conversion never goes by shape: a square Linear is transposed like any other, an
Embedding never is.  Whatever has no partner on the other side is an error that lists both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common.errors import UserError
from common.files import whole
from common.json_file import load_json
from common.logs import write_json
from common.npz import read_npz
from common.unpickle import printable


class Owner(NamedTuple):
    """Who owns one entry of a state dict."""

    kind: str  # the framework layer's class, "" where the model's own class owns the parameter
    local: str  # the entry's name in that layer
    shape: tuple[int, ...]
    parameter: bool  # False for a buffer
    same_as: str  # the first key under which the same tensor is listed


# Paddle's local name -> torch's, by Paddle's layer class.
LOCAL_NAMES = {
    **{
        kind: {"_mean": "running_mean", "_variance": "running_var"}
        for kind in ("BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "BatchNorm", "SyncBatchNorm")
    },
    **{
        kind: {"scale": "weight"} for kind in ("InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D")
    },
    "PReLU": {"_weight": "weight"},
}
TRANSPOSED = {"Linear": {"weight"}}  # (out, in) in torch, (in, out) in Paddle
NO_PARTNER = {"num_batches_tracked"}  # torch counts batches; Paddle has no such buffer


@dataclass(frozen=True)
class Entry:
    """One line of the certificate: where a Paddle entry's values come from."""

    paddle_key: str
    torch_key: str
    kind: str
    transposed: bool


class Layout:
    """The pairing of one model's entries, as a certificate and as a way to and fro.

    `entries` maps each Paddle key to its Entry.  Raises UserError with both sides' leftovers unless
    every torch key is used once and every Paddle key is filled, shapes included.
    """

    def __init__(
        self,
        torch_owners: Mapping[str, Owner],
        paddle_owners: Mapping[str, Owner],
        rename: Mapping[str, str] | None = None,
    ):
        self.rename = make_rename(rename or {})
        self.entries: dict[str, Entry] = {}
        for key, owner in paddle_owners.items():
            local = LOCAL_NAMES.get(owner.kind, {}).get(owner.local, owner.local)
            path = key[: len(key) - len(owner.local)]
            named = path + owner.local in (rename or {})
            torch_key = self.rename(path + (owner.local if named else local))
            transposed = owner.local in TRANSPOSED.get(owner.kind, ())
            self.entries[key] = Entry(key, torch_key, owner.kind or "parameter", transposed)
        self._check(torch_owners, paddle_owners)
        self.paddle_key = {entry.torch_key: entry.paddle_key for entry in self.entries.values()}

    def _check(self, torch_owners, paddle_owners) -> None:
        wanted = [entry.torch_key for entry in self.entries.values()]
        twice = sorted({key for key in wanted if wanted.count(key) > 1})
        missing = sorted(set(wanted) - set(torch_owners))
        surplus = sorted(
            key
            for key in set(torch_owners) - set(wanted)
            if torch_owners[key].local not in NO_PARTNER
        )
        shapes = []
        for entry in self.entries.values():
            if entry.torch_key not in torch_owners:
                continue
            theirs = torch_owners[entry.torch_key].shape
            ours = paddle_owners[entry.paddle_key].shape
            if (theirs[::-1] if entry.transposed else theirs) != ours:
                shapes.append(
                    f"{entry.torch_key} is {list(theirs)} in torch and {list(ours)} in Paddle"
                    + (", transposed as a Linear's weight" if entry.transposed else "")
                )
        problems = []
        if missing:
            problems.append(f"only in the Paddle model: {', '.join(missing)}")
        if surplus:
            problems.append(f"only in the torch model: {', '.join(surplus)}")
        if twice:
            problems.append(f"asked for twice: {', '.join(twice)}")
        if shapes:
            problems.append("; ".join(shapes))
        if problems:
            raise UserError(
                f"weights cannot be carried over one to one: {'; '.join(problems)}. "
                "Give both sides the same names, or map them in case.py's RENAME"
            )

    def to_paddle(self, torch_state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The Paddle state dict with the torch state's values."""
        return {
            entry.paddle_key: _turned(torch_state[entry.torch_key], entry.transposed)
            for entry in self.entries.values()
        }

    def reference_name(self, paddle_key: str) -> str:
        """A Paddle parameter's name in the logs: torch's."""
        return self.entries[paddle_key].torch_key

    def reference_values(self, paddle_key: str, values: np.ndarray) -> np.ndarray:
        """A Paddle parameter's (gradient's, moment's) values in torch's layout."""
        return _turned(values, self.entries[paddle_key].transposed)

    def certificate(self) -> list[dict[str, object]]:
        """One row an entry, for the sidecar and the report."""
        return [vars(entry) for entry in self.entries.values()]


class SameLayout:
    """The reference's own side: names and values stay as they are."""

    def reference_name(self, key: str) -> str:
        """The name itself."""
        return key

    def reference_values(self, key: str, values: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return values


def _turned(values: np.ndarray, transposed: bool) -> np.ndarray:
    return np.ascontiguousarray(values.T) if transposed else values


def make_rename(table: Mapping[str, str]) -> Callable[[str], str]:
    """A function that maps Paddle names to torch names: dotted prefixes, the longest first."""
    prefixes = sorted(table, key=len, reverse=True)

    def rename(name: str) -> str:
        for prefix in prefixes:
            if name == prefix or name.startswith((f"{prefix}.", f"{prefix}:")):
                return table[prefix] + name[len(prefix) :]
        return name

    return rename


def trained_like(
    state: Mapping[str, np.ndarray], owners: Mapping[str, Owner], seed: int
) -> dict[str, np.ndarray]:
    """Weights with the heavy rows and large gains that training makes, drawn from the tape.

    A matrix's rows are scaled by exp(0.8 N(0, 1)), a norm's gains by exp(0.6 N(0, 1)); other
    vectors get 0.3 N(0, 1) added.  Such weights make activations large, and with them the rounding.
    """
    from common.tape import Tape

    tape = Tape(seed)
    heavy = {}
    for key, values in state.items():
        owner = owners[key]
        if not owner.parameter or values.dtype.kind != "f":
            heavy[key] = values
        elif owner.same_as != key:
            heavy[key] = heavy[owner.same_as]
        else:
            rows = values.shape[:1] + (1,) * (values.ndim - 1)
            noise = tape.normal(f"trained-like/{key}", 0, rows)
            if values.ndim > 1:
                heavy[key] = (values * np.exp(0.8 * noise)).astype(values.dtype)
            elif "Norm" in owner.kind and owner.local == "weight":
                heavy[key] = (values * np.exp(0.6 * noise)).astype(values.dtype)
            else:
                heavy[key] = (values + 0.3 * noise).astype(values.dtype)
    return heavy


def save_state(
    path: Path, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner] | None = None
) -> None:
    """Write a torch-named state dict as .npz, and beside it who owns what as .json.

    Both appear whole or not at all, since another process reads them.
    """
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **state)
    if owners is not None:
        write_json(path.with_suffix(".json"), {key: list(owner) for key, owner in owners.items()})


def load_owners(path: Path) -> dict[str, Owner]:
    """The owners that `save_state` wrote beside a state dict; UserError for anything else."""
    path = path.with_suffix(".json")
    owners = {}
    for key, row in load_json(path).items():
        kinds = [type(value) for value in row] if isinstance(row, list) else []
        if kinds != [str, str, list, bool, str] or any(type(size) is not int for size in row[2]):
            raise UserError(f"{path}: refused: {printable(key)} is no entry of a state dict")
        owners[key] = Owner(row[0], row[1], tuple(row[2]), row[3], row[4])
    return owners


def load_state(path: Path) -> dict[str, np.ndarray]:
    """Read a state dict from .npz; nothing in it is ever executed.

    Raises UserError where the file is missing, empty, cut short or of another kind.
    """
    try:
        state = read_npz(path)
    except FileNotFoundError:
        raise UserError(
            f"--weights {path}: there is no such file; give a .npz, or trained-like"
        ) from None
    except (ValueError, UserError) as error:
        raise UserError(
            f"--weights {path}: not a readable .npz of named arrays ({error})"
        ) from None
    if not state:
        raise UserError(f"--weights {path}: the file holds no array")
    return state


def check_state(path: object, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner]) -> None:
    """Raise UserError unless the state has the model's keys and shapes, both lists named."""
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
    if problems:
        raise UserError(f"--weights {path} does not fit the model; {'; '.join(problems)}")
