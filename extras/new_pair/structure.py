"""What a side's process wrote of its model (side_structure.py), read back.  NumPy only."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from twincheck.common.system.json_file import load_json
from twincheck.common.system.npz import read_npz
from twincheck.common.weights.layers import PROJECTIONS, Owner, why_no_partner
from twincheck.common.weights.states import load_owners

MULTIHEAD = "MultiheadAttention"
HALVES = ("[..., 0]", "[..., 1]")  # of a weight that is two on the other side, after its name


@dataclass(frozen=True)
class Call:
    """One call of a module: the shapes of the tensors that it was given and gave; and whether
    values alone said that their axes stand in another order than torch's."""

    number: int
    module: str
    given: tuple[tuple[int, ...], ...]
    gave: tuple[tuple[int, ...], ...]
    turned: bool = False


@dataclass
class Unit:
    """A module that has weights of its own, not those of modules inside it."""

    name: str
    kind: str  # its class
    entries: dict[str, Owner]  # its own name of each -> the owner of the entry
    calls: list[Call] = field(default_factory=list)
    virtual: str = ""  # the MultiheadAttention of torch's that it is one of three projections in
    leaf: bool = True  # no unit stands inside it
    side: str = ""

    def key(self, local: str) -> str:
        """The entry's key in the state dict."""
        return f"{self.name}.{local}" if self.name else local

    @property
    def by_size(self) -> list[str]:
        """Return the unit's own names of its entries, the weight before a bias."""
        return sorted(self.entries, key=lambda local: -len(self.entries[local].shape))

    @property
    def is_linear(self) -> bool:
        """True for one matrix, with a bias or without, as a convolution with a kernel of 1 has."""
        shapes = [owner.shape for owner in self.entries.values()]
        ndims = sorted(len(s[:2] if self.is_conv and {*s[2:]} == {1} else s) for s in shapes)
        return self.leaf and ndims in ([2], [1, 2]) and "Embedding" not in self.kind

    @property
    def is_conv(self) -> bool:
        """True for a framework's convolution, whose calls' tensors have channels first."""
        return any(owner.kind[:-2].endswith("Conv") for owner in self.entries.values())

    @cached_property
    def shape(self) -> tuple:
        """Return each entry's sizes, whichever way it lies: a partner's are equal."""
        return tuple(sorted(sizes_of(owner.shape) for owner in self.entries.values()))


@dataclass
class Structure:
    """One side's model: its modules, the owners of its weights, and one pass through it."""

    side: str
    modules: Mapping[str, str]  # name -> class
    owners: Mapping[str, Owner]
    calls: list[Call] = field(default_factory=list)
    values: Mapping[str, np.ndarray] = field(default_factory=dict)  # "CALL/in/NUMBER" and so on
    error: str = ""  # why there was no pass
    apart: frozenset[str] = frozenset()  # weights that end in (re, im): two on the other side
    splits: bool = True  # a MultiheadAttention of torch's is three projections in Paddle

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Name -> unit, in the order in which the model was built."""
        found: dict[str, Unit] = {}
        for key, owner in self.owners.items():
            name = key[: len(key) - len(owner.local)].rstrip(".")
            if why_no_partner(owner) or name not in self.modules:
                continue
            inside = owner.local.startswith("in_proj_")
            if self.splits and owner.kind == MULTIHEAD and inside:
                local = owner.local.removeprefix("in_proj_")
                size = owner.shape[0] // len(PROJECTIONS)
                for part in PROJECTIONS:
                    place = f"{name}.{part}" if name else part
                    unit = found.setdefault(
                        place, Unit(place, "Linear", {}, virtual=name, side=self.side)
                    )
                    shape = (size, *owner.shape[1:])
                    unit.entries[local] = owner._replace(kind="Linear", local=local, shape=shape)
                continue
            unit = found.setdefault(name, Unit(name, self.modules[name], {}, side=self.side))
            for half in HALVES if key in self.apart else ("",):
                local, shape = owner.local + half, owner.shape[:-1] if half else owner.shape
                unit.entries[local] = owner._replace(local=local, shape=shape)
        for name, unit in found.items():
            unit.calls = self.calls_of(name)
            unit.leaf = not any(
                other != name and (other.startswith(f"{name}.") or not name) for other in found
            )
        return found

    def in_order(self) -> list[Unit]:
        """The units as they are called first; those that never are stand last, as built."""
        last = len(self.calls)
        return sorted(self.units.values(), key=lambda u: u.calls[0].number if u.calls else last)

    def units_in(self, name: str) -> frozenset[str]:
        """The units in a module, itself among them."""
        return frozenset(u for u in self.units if u == name or u.startswith(f"{name}.") or not name)

    def calls_of(self, name: str) -> list[Call]:
        """The calls of a module, in order."""
        return self._calls_of.get(name, [])

    @cached_property
    def _calls_of(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for call in self.calls:
            found.setdefault(call.module, []).append(call)
        return found

    def given(self, unit: Unit) -> bytes | None:
        """Return bytes that are equal for units first given the same tensor; None for no tensor."""
        if unit.virtual:
            return unit.virtual.encode()
        values = self.values.get(f"{unit.calls[0].number}/in/0") if unit.calls else None
        return None if values is None or np.ptp(values) == 0 else np.round(values, 12).tobytes()


def in_halves(ones: Structure, others: Structure) -> Structure:
    """The first, with weights taken apart whose (re, im) are two weights of the others.

    That are the models' own, as of a Fourier layer, whose sizes no weight of the others has.
    """
    sizes = Counter(sizes_of(owner.shape) for owner in others.owners.values() if not owner.kind)
    keys = (
        key
        for key, owner in ones.owners.items()
        if not owner.kind and owner.shape[-1:] == (2,) and not sizes[sizes_of(owner.shape)]
        if sizes[sizes_of(owner.shape[:-1])] > 1
    )
    return replace(ones, apart=frozenset(keys))


def whole_of(name: str) -> tuple[str, str]:
    """The weight that an entry is a half of, and which of HALVES; itself and "" for any other."""
    whole, bracket, rest = name.partition("[")
    return whole, bracket + rest


def spelt(name: str) -> str:
    """An entry's name as one that was a weight by itself would be called."""
    return name.replace(HALVES[0], ".real").replace(HALVES[1], ".imag")


def halved(mine: str, its: str) -> bool:
    """Return whether one of two entries is half of a weight."""
    return any(whole_of(name)[1] for name in (mine, its))


def sizes_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a weight's lengths without 1s, sorted: its partner's too, whichever way it lies."""
    return tuple(sorted(n for n in shape if n != 1))


def read_structure(folder: Path, side: str) -> Structure:
    """Read the structure that a side's process has left in a folder."""
    path = folder / f"structure_{side}.json"
    told = load_json(path)
    structure = Structure(side, told["modules"], load_owners(folder / f"owners_{side}.json"))
    return replace(read_calls(path, structure), error=told["error"])


def read_calls(path: Path, structure: Structure) -> Structure:
    """The structure with the calls of another pass."""
    told = load_json(path)
    calls = [
        Call(i, c["module"], *(tuple(map(tuple, c[what])) for what in ("in", "out")), c["turned"])
        for i, c in enumerate(told["calls"])
    ]
    return replace(structure, calls=calls, values=read_npz(path.with_suffix(".npz")))
