"""What the frameworks' layers call their weights, and how a torch entry becomes a Paddle entry.

NumPy only.  The tables go by the kind of layer that owns an entry, never by shape: a square Linear
is transposed like any other, an Embedding never is.  Where torch's owner is of a class of the
model's own, the weights of that class which are no squares show how it keeps them.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from twincheck.common.system.matrices import contiguous, put
from twincheck.common.system.reasons import Kind


class Owner(NamedTuple):
    """The layer that owns one entry of a state dict, and what the entry is."""

    kind: str  # the framework's class that the owner is or derives from, "" for the model's own
    local: str  # the entry's name in that layer
    shape: tuple[int, ...]
    parameter: bool  # False for a buffer
    same_as: str  # the first key under which the same tensor is listed
    within: tuple[str, ...] = ()  # kinds of the modules around the owner, from the root inwards
    probe: str = ""  # the probe that shows what the owner does
    padding: int | None = None  # an Embedding's padding_idx, whose row no gradient reaches
    unbiased: bool = False  # a running variance that is kept with n / (n - 1), as torch does
    own: str = ""  # the name of the owner's class


# What begins the kind of a layer of paddle.compat.nn: these keep torch's names and layouts, so that
# no table below has them.  Their Linear is (out, in), and is never transposed.
COMPAT = "compat."

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
# spectral_norm and weight_norm: Paddle's name, which was torch's too -> torch's parametrizations'.
PARAMETRIZED = {
    "weight_orig": ("parametrizations.weight.original",),
    "weight_u": ("parametrizations.weight.0._u",),
    "weight_v": ("parametrizations.weight.0._v", "parametrizations.weight.original1"),
    "weight_g": ("parametrizations.weight.original0",),
}
# Paddle's child -> torch's, by the class of the Paddle layer around it.
CHILD_NAMES = {"TransformerDecoderLayer": {"cross_attn": "multihead_attn"}}
PROJECTIONS = ("q_proj", "k_proj", "v_proj")  # in the order of the rows of torch's in_proj_weight
TRANSPOSED = {"Linear": ("weight", "weight_orig", "weight_v")}  # (out, in) in torch, (in, out) here
RESHAPED = {("Bilinear", "bias"), ("", "weight_g")}  # axes of length 1 come or go; "": any layer

# What a layer of one framework alone keeps; it is listed, and needs no partner.
NO_PARTNER = {
    "num_batches_tracked": Kind.COUNT_OF_BATCHES(),
    "_dropout_state": Kind.DROPOUT_STATE(),
    **dict.fromkeys(("weight_u", "weight_v", "_u", "_v"), Kind.SPECTRAL_ESTIMATE()),
}
# Buffers that say nothing which the configuration does not: one side may keep them, and the other
# make them when it needs them.
CONSTANTS = {
    "position_ids": Kind.POSITIONS(),
    "token_type_ids": Kind.ZEROS(),
    "inv_freq": Kind.ROTARY_FREQUENCIES(),
}


def layer_kind(kind: type) -> str:
    """Return the name that a framework's class of layers has here."""
    return f"{COMPAT if '.compat.' in kind.__module__ + '.' else ''}{kind.__name__}"


def own_parameters(owners: Mapping[str, Owner], modules: Iterable[str]) -> dict[str, int]:
    """Module -> how many of its parameters are not tied to one outside it."""
    keys: dict[str, list[str]] = {}
    for key, owner in owners.items():
        if owner.parameter:
            keys.setdefault(owner.same_as, []).append(key)
    return {
        name: sum(all(key.startswith(f"{name}.") for key in same) for same in keys.values())
        for name in modules
    }


def why_no_partner(owner: Owner) -> str:
    """Say why an entry needs no partner on the other side; empty where it does need one."""
    if not owner.kind or len(owner.shape) > 1:  # weight_norm's weight_v is a matrix and a parameter
        return ""
    return NO_PARTNER.get(owner.local, "")


def is_reshaped(owner: Owner) -> bool:
    """Return whether a Paddle entry may have other axes of length 1 than torch's."""
    return not RESHAPED.isdisjoint({(owner.kind, owner.local), ("", owner.local)})


def torch_locals(owner: Owner) -> list[str]:
    """The names that a Paddle entry may have in torch's layer, in the order to try them."""
    known = LOCAL_NAMES.get(owner.kind, {}).get(owner.local)
    return [owner.local, *filter(None, [known]), *PARAMETRIZED.get(owner.local, ())]


def torch_path(path: str, within: tuple[str, ...]) -> str:
    """A Paddle module's path with the names that torch's layers give their children."""
    parts = path.split(".")
    for i, kind in enumerate(within[: len(parts)]):
        parts[i] = CHILD_NAMES.get(kind, {}).get(parts[i], parts[i])
    return ".".join(parts)


def projection(
    owners: Mapping[str, Owner], site: str, local: str
) -> tuple[str, tuple[int, int] | None] | None:
    """(torch key, rows) of a layer `q_proj`, … in torch's MultiheadAttention; None for any other.

    torch keeps the three in one weight, or each in its own where their inputs differ in size.
    """
    attention, _, name = site.rpartition(".")
    if name not in PROJECTIONS or local not in ("weight", "bias"):
        return None
    prefix = f"{attention}." if attention else ""
    fused, alone = f"{prefix}in_proj_{local}", f"{prefix}{name}_{local}"
    for key in (fused, alone):
        if key in owners and owners[key].kind == "MultiheadAttention":
            size, i = owners[key].shape[0] // len(PROJECTIONS), PROJECTIONS.index(name)
            return key, (i * size, (i + 1) * size) if key == fused else None
    return None


@dataclass(frozen=True)
class Entry:
    """The source of a Paddle entry's values: a torch entry, or some of its rows."""

    paddle_key: str
    torch_key: str
    kind: str  # of the Paddle layer that owns it
    shape: tuple[int, ...]  # in Paddle
    transposed: bool = False
    rows: tuple[int, int] | None = None  # None: all
    reshaped: bool = False

    @property
    def torch_keys(self) -> tuple[str, ...]:
        """The torch entries that it reads."""
        return (self.torch_key,)

    @property
    def whole(self) -> bool:
        """True where it reads all of one torch entry."""
        return self.rows is None

    @property
    def change(self) -> str:
        """Say what is done to the values."""
        first, end = self.rows or (0, 0)
        changes = [Kind.CHANGE_ROWS(first=first, end=end)] if self.rows else []
        changes += [Kind.CHANGE_TRANSPOSED()] if self.transposed else []
        changes += [Kind.CHANGE_SHAPE(shape=str(list(self.shape)))] if self.reshaped else []
        return Kind.LISTED(parts=changes) if changes else Kind.CHANGE_NONE()

    def reads(self) -> object:
        """Two entries with equal `reads()` have the same values."""
        return self.torch_key, self.rows

    def misfit(self, torch_owners: Mapping[str, Owner]) -> str:
        """Say what is wrong with the torch entry's shape; empty where it fits."""
        shape = torch_owners[self.torch_key].shape
        taken = shape if self.rows is None else (self.rows[1] - self.rows[0], *shape[1:])
        taken = taken[::-1] if self.transposed else taken
        fits = taken == self.shape
        if self.reshaped:
            fits = [n for n in taken if n != 1] == [n for n in self.shape if n != 1]
        if fits:
            return ""
        paddle_key = "" if self.paddle_key == self.torch_key else f"{self.paddle_key} "
        first, end = self.rows or (0, 0)
        return Kind.ENTRY_MISFITS(
            key=self.torch_key,
            torch=str(list(shape)),
            paddle=f"{paddle_key}{list(self.shape)}",
            rows=Kind.ENTRY_TAKES_ROWS(first=first, end=end) if self.rows else "",
            how=Kind.ENTRY_TURNED() if self.transposed else "",
        )

    def from_torch(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """The Paddle entry's values."""
        return contiguous(self.seen_in(state)).reshape(self.shape)

    def seen_in(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the Paddle entry's values, not copied where that can be."""
        values = self._part(state[self.torch_key])
        return (values.T if self.transposed else values).reshape(self.shape)

    def to_torch(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The torch entry's values, where it reads all of that: a view of the Paddle entry's."""
        return (values.T if self.transposed else values).reshape(shape)

    def put(self, values: np.ndarray, state: Mapping[str, np.ndarray]) -> None:
        """Write the Paddle entry's values to their places in the torch entry."""
        target = self._part(state[self.torch_key])
        put((values.T if self.transposed else values).reshape(target.shape), target)

    def count(self, key: str, uses: np.ndarray) -> None:
        """Add one to each element of the torch entry that it reads."""
        self._part(uses)[...] += 1

    def _part(self, values: np.ndarray) -> np.ndarray:
        return values[slice(*self.rows)] if self.rows else values


def make_rename(table: Mapping[str, str]) -> Callable[[str], str]:
    """A function that maps Paddle names to torch names: dotted prefixes, the longest first."""
    prefixes = sorted(table, key=len, reverse=True)

    @cache  # of hundreds of prefixes, for every value that is logged
    def rename(name: str) -> str:
        for prefix in prefixes:
            if name == prefix or name.startswith((f"{prefix}.", f"{prefix}:")):
                return table[prefix] + name[len(prefix) :]
        return name

    return rename


def count_values(owners: Mapping[str, Owner]) -> int:
    """Count the values of a model's parameters; one that has several names counts once."""
    return sum(
        math.prod(owner.shape)
        for key, owner in owners.items()
        if owner.parameter and owner.same_as == key
    )
