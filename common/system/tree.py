"""Trees of tensors, as models take and return them: dicts, lists, tuples and dataclasses.

Both sides walk what models take and return through here.  A named tuple, a subclass of OrderedDict
(transformers' ModelOutput) or a dataclass comes back as what it was, so that the code after it
still finds `outputs.logits`; where nothing changed, the very object.  No framework is imported.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, MutableMapping

Path = tuple[object, ...]  # to one tensor: a key, a field's name or an index at each level


def children(values: object) -> list[tuple[object, object]] | None:
    """(key, value) of each child of a container; None for what is no container."""
    if isinstance(values, MutableMapping):
        return list(values.items())
    # The other side may have a ModelOutput in its place.
    if isinstance(values, tuple) and hasattr(values, "_asdict"):
        return list(values._asdict().items())
    if isinstance(values, list | tuple):
        return list(enumerate(values))
    if dataclasses.is_dataclass(values) and not isinstance(values, type):
        return [(field.name, getattr(values, field.name)) for field in dataclasses.fields(values)]
    return None


def tree_leaves(values: object, is_leaf: Callable[[object], bool], path: Path = ()) -> Iterator:
    """(path, leaf) of every leaf, in order; whatever is neither leaf nor container is left out."""
    if is_leaf(values):
        yield path, values
        return
    for key, value in children(values) or ():
        yield from tree_leaves(value, is_leaf, (*path, key))


def named_leaves(values: object, is_leaf: Callable[[object], bool]) -> dict[str, object]:
    """Path as a log writes it -> leaf; a leaf that stands alone is called output."""
    return {join_path(path) or "output": leaf for path, leaf in tree_leaves(values, is_leaf)}


def tree_map(
    values: object, change: Callable[[Path, object], object], is_leaf: Callable, path: Path = ()
) -> object:
    """Return the same structure with `change(path, leaf)` in each leaf's place."""
    if is_leaf(values):
        return change(path, values)
    pairs = children(values)
    if pairs is None:
        return values
    new = {key: tree_map(value, change, is_leaf, (*path, key)) for key, value in pairs}
    if all(new[key] is value for key, value in pairs):
        return values
    return _like(values, new)


def _like(values, new: dict):
    """A copy of a container that holds the values of `new`."""
    if isinstance(values, tuple):
        # A named tuple is built from its fields, any other from one iterable.
        make = getattr(type(values), "_make", type(values))
        return make(new.values())
    container = copy.copy(values)
    if isinstance(values, list):
        container[:] = new.values()
    elif isinstance(values, MutableMapping):
        for key, value in new.items():
            container[key] = value  # ModelOutput keeps its attributes in step with its items
    else:
        for key, value in new.items():
            object.__setattr__(container, key, value)  # also on a frozen dataclass
    return container


def join_path(path: Path) -> str:
    """A path as a log writes it: its keys joined by '/'."""
    return "/".join(str(key) for key in path)
