"""Inputs that nest, as a forward takes them, and their arrays under one name each.

    {"x": array, "parts": [array, array]}    what make_inputs gives, and forward and loss get
    {"x": array, "parts/0": array, "parts/1": array}    as the inputs are carried and hashed

A tuple comes back as a list.  NumPy only.
"""

from collections.abc import Mapping

import numpy as np

from twincheck.common.system.reasons import Kind


def flat(inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Name -> array; the names of each level are joined by '/'.

    A list that holds no array, list or dict of arrays is an array itself, such as [1, 2, 3].
    Raises ValueError, one sentence, for what would not come back from `nested`.
    """
    found: dict[str, np.ndarray] = {}
    for key, values in inputs.items():
        _add(found, _name(key), values)
    return found


def nested(tensors: Mapping[str, object]) -> dict[str, object]:
    """Flat names taken apart again; the values may be any side's tensors."""
    inputs: dict[str, object] = {}
    for name, tensor in tensors.items():
        *folders, last = name.split("/")
        inside = inputs
        for folder in folders:
            inside = inside.setdefault(folder, {})
        inside[last] = tensor
    return {name: _with_lists(values) for name, values in inputs.items()}


def _add(found: dict[str, np.ndarray], name: str, values: object) -> None:
    if isinstance(values, Mapping):
        parts = {_name(key, name): value for key, value in values.items()}
        if any(key.isdecimal() for key in parts):
            raise ValueError(Kind.INPUT_KEYS_NUMBERS(name=name))
    elif _holds_arrays(values):
        parts = {str(i): value for i, value in enumerate(values)}
    else:
        found[name] = np.asarray(values)
        return
    if not parts:
        raise ValueError(Kind.INPUT_EMPTY(name=name))
    for key, value in parts.items():
        _add(found, f"{name}/{key}", value)


def _name(key: object, inside: str = "") -> str:
    if isinstance(key, str) and key and "/" not in key:
        return key
    where = Kind.OF_INPUT(name=inside) if inside else Kind.OF_THE_INPUTS()
    raise ValueError(Kind.INPUT_KEY_REFUSED(key=repr(key), where=where))


def _holds_arrays(values: object) -> bool:
    """True for a list or tuple that stands for several arrays."""
    return isinstance(values, list | tuple) and any(
        isinstance(value, np.ndarray | Mapping) or _holds_arrays(value) for value in values
    )


def _with_lists(values: object) -> object:
    """Dicts whose keys count from 0 are lists."""
    if not isinstance(values, dict):
        return values
    parts = {key: _with_lists(value) for key, value in values.items()}
    return list(parts.values()) if list(parts) == [str(i) for i in range(len(parts))] else parts
