"""What the certificate measures: weights survive the model, and the conversion both ways.

NumPy only.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from common.weights.layout import Layout, SameLayout


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
    different = []
    for key, values in layout.as_torch(entries):
        expected = state[key]
        if expected.dtype.kind == "f":
            expected = expected.astype(values.dtype)
        same = expected.shape == values.shape and expected.dtype == values.dtype
        if not same or expected.tobytes() != values.tobytes():
            different.append(key)
    return different


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
    back = layout.to_paddle(layout.to_torch(paddle_state))
    return [key for key, values in back.items() if values.tobytes() != paddle_state[key].tobytes()]
