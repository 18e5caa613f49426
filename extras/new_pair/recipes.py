"""Expressions that make the entries of a Paddle model of torch's, as case.py gets them.

NumPy only.
"""

import inspect
import re
from collections.abc import Mapping, Sequence

import numpy as np

_TURNED, _DEEP = ".T", ".swapaxes(-1, -2)"  # of what has two axes, of what has more


def key(name: str, index: str = "") -> str:
    """A torch entry, or a part of it."""
    return f'state["{name}"]{index}'


def stacked(names: Sequence[str]) -> str:
    """Torch entries of one shape along a new first axis, such as those of all experts."""
    for found in re.finditer(r"\d+", names[0]):
        head, tail = names[0][: found.start()], names[0][found.end() :]
        if list(names) == [f"{head}{e}{tail}" for e in range(len(names))]:
            return f'np.stack([state[f"{head}{{e}}{tail}"] for e in range({len(names)})])'
    return f"np.stack([{', '.join(map(key, names))}])"


def shaped(recipe: str, source: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """A recipe for values of shape `source` in another shape; itself where that is the same."""
    sizes = ", ".join(map(str, shape))
    return recipe if source == shape else f"{recipe}.reshape({sizes or ()})"


def turned(recipe: str, deep: bool = False) -> str:
    """A recipe with its last two axes exchanged; `deep`: it has more than these."""
    if recipe.endswith((_TURNED, _DEEP)):
        return recipe.removesuffix(_TURNED).removesuffix(_DEEP)
    return recipe + (_DEEP if deep else _TURNED)


def joined(parts: Sequence[str], groups: int = 1, axis: int = 0, turn: bool = False) -> str:
    """Parts in one: along the first axis, or the axis behind that of experts, in `groups` turns.

    Each part is cut into so many equal runs; the first run of each comes first, then the second of
    each, and so on: 1 puts them end to end, as many as there are rows interleaves them.
    turn   the whole is turned, its parts before they are joined where they are turned by themselves
    """
    if turn and all(part.endswith(_TURNED) for part in parts):
        return joined([turned(part) for part in parts], groups, 1)
    inner = ", ".join(parts)
    made = f"join([{inner}], {groups}, {axis})"
    if groups == 1:
        made = f"np.concatenate([{inner}]{f', {axis}' if axis else ''})"
    return turned(made) if turn else made


def part_of(recipe: str, sizes: Sequence[int], part: int, groups=1, axis=0, turn=False) -> str:
    """One of the parts that `joined` would have joined."""
    if turn and recipe.endswith(_TURNED):
        return part_of(turned(recipe), sizes, part, groups, 1)
    made = f"cut({recipe}, {list(sizes)}, {groups}, {axis})[{part}]"
    if groups == 1:
        start = sum(sizes[:part])
        made = f"{recipe}[{':, ' * axis}{start or ''}:{start + sizes[part]}]"
    return turned(made) if turn else made


def value_of(recipe: str, state: Mapping[str, np.ndarray]) -> np.ndarray:
    """The array that a recipe makes, by the very text that case.py gets."""
    return eval(recipe, {"np": np, "join": join, "cut": cut, "state": state})


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
