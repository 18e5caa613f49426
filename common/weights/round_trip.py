"""What the certificate measures: weights survive the model, and the conversion both ways.

NumPy only.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from twincheck.common.system import hashes
from twincheck.common.system.matrices import contiguous
from twincheck.common.weights.layout import Layout, SameLayout


def changed_keys(
    layout: Layout | SameLayout,
    entries: Iterable[tuple[str, np.ndarray]],
    state: Mapping[str, np.ndarray],
) -> list[str]:
    """Keys of a torch state that a model which has loaded it gives back with other bits.

    entries     (key, array) as that model lists them, under the names and in the layout of its side
    """
    if isinstance(layout, Layout):
        entries = ((key, values) for key, values in entries if key in layout.entries)
    found = layout.as_torch(entries)
    return [key for key, values in found if not same_bits(values, state[key])]


def _is_one_way(layout: Layout, key: str, values: np.ndarray) -> bool:
    entry = layout.entries[layout.paddle_first[key]]
    shapes = {k: layout.torch_owners[k].shape for k in entry.torch_keys}
    state = {k: np.zeros(shape, values.dtype) for k, shape in shapes.items()}
    entry.put(values, state)
    return not same_bits(entry.from_torch(state), values)


def same_bits(values: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether both have the same bits in the precision of `values`, NaNs included."""
    if expected.dtype != values.dtype and expected.dtype.kind == "f":
        expected = expected.astype(values.dtype)
    return hashes.same_bits(contiguous(values), contiguous(expected))


def filled_padding_rows(layout: Layout, state: Mapping[str, np.ndarray]) -> list[str]:
    """Keys of a torch state whose padding row is not 0; Paddle's Embedding gives zeros for it."""
    padding = {
        torch_key: layout.paddle_owners[key].padding
        for key, entry in layout.entries.items()
        for torch_key in entry.torch_keys
    }
    return [key for key, row in padding.items() if row is not None and state[key][row].any()]


def one_way_keys(layout: Layout, paddle_state: Mapping[str, np.ndarray]) -> list[str]:
    """Keys of a Paddle state that have other bits after a conversion to torch and back."""
    carried = (key for key in paddle_state if layout.paddle_first.get(key) in layout.entries)
    return [key for key in carried if _is_one_way(layout, key, paddle_state[key])]
