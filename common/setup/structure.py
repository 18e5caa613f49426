"""What a side's process wrote of its model (common/sides/structure.py), read back.  NumPy only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from common.system.json_file import load_json
from common.system.npz import read_npz
from common.weights.layers import PROJECTIONS, Owner, why_no_partner
from common.weights.states import load_owners

MULTIHEAD = "MultiheadAttention"


@dataclass(frozen=True)
class Call:
    """One call of a module: the shapes of the tensors that it was given and gave."""

    number: int
    module: str
    given: tuple[tuple[int, ...], ...]
    gave: tuple[tuple[int, ...], ...]


@dataclass
class Unit:
    """A module that has weights of its own, not those of modules inside it."""

    name: str
    kind: str  # its class
    entries: dict[str, Owner]  # its own name of each -> the owner of the entry
    calls: list[Call] = field(default_factory=list)
    virtual: bool = False  # one of the three projections in torch's MultiheadAttention
    leaf: bool = True  # no unit stands inside it

    def key(self, local: str) -> str:
        """The entry's key in the state dict."""
        return f"{self.name}.{local}" if self.name else local

    @cached_property
    def shape(self) -> tuple:
        """What a partner has too: each entry's sizes, whichever way it lies."""
        sizes = (tuple(sorted(n for n in o.shape if n != 1)) for o in self.entries.values())
        return tuple(sorted(sizes))


@dataclass
class Structure:
    """One side's model: its modules, the owners of its weights, and one pass through it."""

    side: str
    modules: list[tuple[str, str, str]]  # name, class, where the class is defined
    owners: Mapping[str, Owner]
    calls: list[Call] = field(default_factory=list)
    values: Mapping[str, np.ndarray] = field(default_factory=dict)  # "CALL/in/NUMBER" and so on
    error: str = ""  # why there was no pass

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Name -> unit, in the order in which the model was built."""
        kinds = {name: kind for name, kind, _ in self.modules}
        found: dict[str, Unit] = {}
        for key, owner in self.owners.items():
            name = key[: len(key) - len(owner.local)].rstrip(".")
            if why_no_partner(owner) or name not in kinds:
                continue
            if owner.kind == MULTIHEAD and owner.local.startswith("in_proj_"):
                local = owner.local.removeprefix("in_proj_")
                size = owner.shape[0] // len(PROJECTIONS)
                for part in PROJECTIONS:
                    place = f"{name}.{part}" if name else part
                    unit = found.setdefault(place, Unit(place, "Linear", {}, virtual=True))
                    unit.entries[local] = owner._replace(
                        local=local, shape=(size, *owner.shape[1:])
                    )
                continue
            unit = found.setdefault(name, Unit(name, kinds[name], {}))
            unit.entries[owner.local] = owner
        for call in self.calls:
            if call.module in found:
                found[call.module].calls.append(call)
        for name, unit in found.items():
            unit.leaf = not any(
                other != name and (other.startswith(f"{name}.") or not name) for other in found
            )
        return found

    def in_order(self) -> list[Unit]:
        """The units as they are called first; those that never are stand last, as built."""
        units = list(self.units.values())
        called = [unit for unit in units if unit.calls]
        called.sort(key=lambda unit: unit.calls[0].number)
        return called + [unit for unit in units if not unit.calls]


def read_structure(folder: Path, side: str) -> Structure:
    """What the side's process has left in a folder."""
    path = folder / f"structure_{side}.json"
    told = load_json(path)
    calls = [
        Call(i, c["module"], *(tuple(tuple(s) for s in c[what]) for what in ("in", "out")))
        for i, c in enumerate(told["calls"])
    ]
    return Structure(
        side,
        [tuple(row) for row in told["modules"]],
        load_owners(folder / f"owners_{side}.json"),
        calls,
        read_npz(path.with_suffix(".npz")),
        told["error"],
    )
