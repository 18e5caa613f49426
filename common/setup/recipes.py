"""How the entries of a Paddle model are made of torch's: values, and the source that makes them.

NumPy only.  A recipe is a small tree; `value(state)` computes it, `code` writes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

State = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Key:
    """A torch entry, or one of a stack of them."""

    name: str
    index: int | None = None

    def value(self, state: State) -> np.ndarray:
        """The array."""
        return state[self.name] if self.index is None else state[self.name][self.index]

    @property
    def code(self) -> str:
        """The source."""
        return f'state["{self.name}"]' + ("" if self.index is None else f"[{self.index}]")


@dataclass(frozen=True)
class Turned:
    """Its last two axes exchanged; `deep`: it has three."""

    of: "Recipe"
    deep: bool = False

    def value(self, state: State) -> np.ndarray:
        """The array."""
        return np.swapaxes(self.of.value(state), -1, -2)

    @property
    def code(self) -> str:
        """The source."""
        return self.of.code + (".swapaxes(1, 2)" if self.deep else ".T")


@dataclass(frozen=True)
class Joined:
    """Parts in one: along the first axis, or the axis behind that of experts, in `groups` turns.

    Each part is cut into so many equal runs; the first run of each comes first, then the second of
    each, and so on: 1 puts them end to end, as many as there are rows interleaves them.
    """

    parts: tuple["Recipe", ...]
    groups: int = 1
    axis: int = 0

    def value(self, state: State) -> np.ndarray:
        """The array."""
        return join([part.value(state) for part in self.parts], self.groups, self.axis)

    @property
    def code(self) -> str:
        """The source."""
        first = self.parts[0]
        if isinstance(first, Cut) and first.groups > 1 and self.parts == first.all_parts:
            return f"join({first.code_of_all}, {self.groups}, {self.axis})"
        parts = ", ".join(part.code for part in self.parts)
        if self.groups == 1:
            return f"np.concatenate([{parts}]{f', {self.axis}' if self.axis else ''})"
        return f"join([{parts}], {self.groups}, {self.axis})"


@dataclass(frozen=True)
class Cut:
    """One of the parts that `Joined` would have joined."""

    of: "Recipe"
    sizes: tuple[int, ...]
    part: int
    groups: int = 1
    axis: int = 0

    def value(self, state: State) -> np.ndarray:
        """The array."""
        return cut(self.of.value(state), self.sizes, self.groups, self.axis)[self.part]

    @property
    def code(self) -> str:
        """The source."""
        if self.groups == 1:
            start = sum(self.sizes[: self.part])
            rows = f"{start or ''}:{start + self.sizes[self.part]}"
            return f"{self.of.code}[{':, ' * self.axis}{rows}]"
        return f"{self.code_of_all}[{self.part}]"

    @property
    def code_of_all(self) -> str:
        """The source of the list of all parts."""
        return f"cut({self.of.code}, {list(self.sizes)}, {self.groups}, {self.axis})"

    @property
    def all_parts(self) -> tuple["Cut", ...]:
        """All of them."""
        return tuple(replace(self, part=i) for i in range(len(self.sizes)))


@dataclass(frozen=True)
class Stacked:
    """Equal parts along a new first axis."""

    parts: tuple["Recipe", ...]

    def value(self, state: State) -> np.ndarray:
        """The array."""
        return np.stack([part.value(state) for part in self.parts])

    @property
    def code(self) -> str:
        """The source."""
        names = [part.name for part in self.parts if isinstance(part, Key)]
        for found in re.finditer(r"\d+", names[0]) if names else ():
            head, tail = names[0][: found.start()], names[0][found.end() :]
            if names == [f"{head}{e}{tail}" for e in range(len(self.parts))]:
                return f'np.stack([state[f"{head}{{e}}{tail}"] for e in range({len(names)})])'
        return f"np.stack([{', '.join(part.code for part in self.parts)}])"


Recipe = Key | Turned | Joined | Cut | Stacked


def turned(recipe: Recipe, deep: bool = False) -> Recipe:
    """A recipe turned, as it is written the shortest."""
    if isinstance(recipe, Turned):
        return recipe.of
    if isinstance(recipe, Cut) and isinstance(recipe.of, Turned) and not deep:
        return Cut(recipe.of.of, recipe.sizes, recipe.part, recipe.groups, 1)
    if isinstance(recipe, Joined) and not deep:
        inner = tuple(part.of for part in recipe.parts if isinstance(part, Turned))
        if len(inner) == len(recipe.parts):
            return Joined(inner, recipe.groups, 1)
    return Turned(recipe, deep)


def join(parts: list, groups: int, axis: int) -> np.ndarray:
    """See Joined."""
    shapes = [part.shape for part in parts]
    runs = [
        part.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
        for part, shape in zip(parts, shapes, strict=True)
    ]
    joined = np.concatenate(runs, axis + 1)
    return joined.reshape(*shapes[0][:axis], -1, *shapes[0][axis + 1 :])


def cut(values: np.ndarray, sizes: tuple[int, ...], groups: int, axis: int) -> list[np.ndarray]:
    """See Cut."""
    shape = values.shape
    runs = values.reshape(*shape[:axis], groups, -1, *shape[axis + 1 :])
    ends = np.cumsum([size // groups for size in sizes])[:-1]
    return [
        part.reshape(*shape[:axis], -1, *shape[axis + 1 :])
        for part in np.split(runs, ends, axis + 1)
    ]


def keys_of(recipe: Recipe) -> list[str]:
    """The torch entries that a recipe reads."""
    if isinstance(recipe, Key):
        return [recipe.name]
    inner = recipe.parts if isinstance(recipe, Joined | Stacked) else (recipe.of,)
    return [key for part in inner for key in keys_of(part)]


HELPERS = {
    "join": '''def join(parts, groups, axis):
    """Parts in one along an axis: cut into equal runs, and the runs of each in turn."""
    shape = parts[0].shape
    runs = [p.reshape(*shape[:axis], groups, -1, *shape[axis + 1 :]) for p in parts]
    return np.concatenate(runs, axis + 1).reshape(*shape[:axis], -1, *shape[axis + 1 :])
''',
    "cut": '''def cut(values, sizes, groups, axis):
    """The parts of an axis whose runs stand in turn: `sizes` are the parts' own."""
    shape = values.shape
    runs = values.reshape(*shape[:axis], groups, -1, *shape[axis + 1 :])
    ends = np.cumsum([size // groups for size in sizes])[:-1]
    parts = np.split(runs, ends, axis + 1)
    return [part.reshape(*shape[:axis], -1, *shape[axis + 1 :]) for part in parts]
''',
}
