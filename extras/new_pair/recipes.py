"""How the entries of a Paddle model are made of torch's: values, and the source that makes them.

NumPy only.  A recipe is a small tree; its `code` is the source, which `value_of` computes.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

State = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Text:
    """What nothing further is made of but whole: an entry, equal parts in one, another shape."""

    code: str


@dataclass(frozen=True)
class Turned:
    """Its last two axes exchanged; `deep`: it has more than these."""

    of: "Recipe"
    deep: bool = False

    @property
    def code(self) -> str:
        """The source."""
        return self.of.code + (".swapaxes(-1, -2)" if self.deep else ".T")


@dataclass(frozen=True)
class Joined:
    """Parts in one: along the first axis, or the axis behind that of experts, in `groups` turns.

    Each part is cut into so many equal runs; the first run of each comes first, then the second of
    each, and so on: 1 puts them end to end, as many as there are rows interleaves them.
    """

    parts: tuple["Recipe", ...]
    groups: int = 1
    axis: int = 0

    @property
    def code(self) -> str:
        """The source."""
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

    @property
    def code(self) -> str:
        """The source."""
        if self.groups == 1:
            start = sum(self.sizes[: self.part])
            rows = f"{start or ''}:{start + self.sizes[self.part]}"
            return f"{self.of.code}[{':, ' * self.axis}{rows}]"
        return f"cut({self.of.code}, {list(self.sizes)}, {self.groups}, {self.axis})[{self.part}]"


Recipe = Text | Turned | Joined | Cut


def key(name: str, index: str = "") -> Recipe:
    """A torch entry, or a part of it."""
    return Text(f'state["{name}"]{index}')


def stacked(names: Sequence[str]) -> Recipe:
    """Torch entries of one shape along a new first axis, such as those of all experts."""
    for found in re.finditer(r"\d+", names[0]):
        head, tail = names[0][: found.start()], names[0][found.end() :]
        if list(names) == [f"{head}{e}{tail}" for e in range(len(names))]:
            return Text(f'np.stack([state[f"{head}{{e}}{tail}"] for e in range({len(names)})])')
    return Text(f"np.stack([{', '.join(key(name).code for name in names)}])")


def shaped(recipe: Recipe, source: tuple[int, ...], shape: tuple[int, ...]) -> Recipe:
    """A recipe for values of shape `source` in another shape; itself where that is the same."""
    sizes = ", ".join(map(str, shape))
    return recipe if source == shape else Text(f"{recipe.code}.reshape({sizes or ()})")


def value_of(recipe: Recipe, state: State) -> np.ndarray:
    """The array that a recipe makes, by the very text that case.py gets."""
    return eval(recipe.code, {"np": np, "join": join, "cut": cut, "state": state})


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


def join(parts, groups, axis):
    """Parts in one along an axis: cut into equal runs, and the runs of each in turn."""
    shape = parts[0].shape
    runs = [p.reshape(*shape[:axis], groups, -1, *shape[axis + 1 :]) for p in parts]
    return np.concatenate(runs, axis + 1).reshape(*shape[:axis], -1, *shape[axis + 1 :])


def cut(values, sizes, groups, axis):
    """The parts of an axis whose runs stand in turn: `sizes` are the parts' own."""
    shape = values.shape
    runs = values.reshape(*shape[:axis], groups, -1, *shape[axis + 1 :])
    ends = np.cumsum([size // groups for size in sizes])[:-1]
    parts = np.split(runs, ends, axis + 1)
    return [part.reshape(*shape[:axis], -1, *shape[axis + 1 :]) for part in parts]


# What a case.py that calls them is given, word for word.
HELPERS = {function.__name__: inspect.getsource(function) for function in (join, cut)}
