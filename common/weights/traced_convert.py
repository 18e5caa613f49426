"""case.py's `convert(torch_state) -> paddle_state`, traced so that it is certified like the rest.

NumPy only.  `convert` is for fused or split weights: from the torch state, a dict of arrays with
torch's names, it returns the Paddle entries that it knows how to fill; all others are paired by
name, kind of layer and RENAME as usual.  It may cut, join, transpose and reorder, and nothing else.

It is never called with the weights, but with marks (marks.py).  What it returns then says of each
element where it came from, which proves that it computes nothing, and tells how gradients are
carried back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.marks import NOWHERE, PASSES, Marks, State

# Torch key -> (flat indices in the torch entry, flat indices in the Paddle entry that they go to).
Parts = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Converted:
    """A Paddle entry that `convert` fills: any elements of any torch entries."""

    paddle_key: str
    kind: str
    shape: tuple[int, ...]
    parts: Parts
    change: str = "convert"
    transposed: bool = False
    whole: bool = False

    @property
    def torch_keys(self) -> tuple[str, ...]:
        """The torch entries that it reads."""
        return tuple(self.parts)

    @property
    def torch_key(self) -> str:
        """Their names."""
        return ", ".join(self.parts)

    def reads(self) -> object:
        """Two entries with equal `reads()` have the same values."""
        return tuple((key, source.tobytes()) for key, (source, _) in self.parts.items())

    def from_torch(self, state: State) -> np.ndarray:
        """The Paddle entry's values."""
        dtype = np.result_type(*(state[key].dtype for key in self.parts))
        values = np.empty(int(np.prod(self.shape)), dtype)
        for key, (source, target) in self.parts.items():
            values[target] = state[key].reshape(-1)[source]
        return values.reshape(self.shape)

    seen_in = from_torch

    def misfit(self, torch_owners: Mapping) -> str:
        """Nothing: what convert returns was looked at when it was traced."""
        return ""

    def put(self, values: np.ndarray, state: State) -> None:
        """Write the Paddle entry's values to their places in the torch entries."""
        for key, (source, target) in self.parts.items():
            state[key].reshape(-1)[source] = values.reshape(-1)[target]

    def count(self, key: str, uses: np.ndarray) -> None:
        """Add one to each element of a torch entry that it reads."""
        np.add.at(uses.reshape(-1), self.parts[key][0], 1)


def trace(
    convert: Callable[[State], State],
    owners: Mapping[str, Owner],
    paddle_shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Parts]:
    """Paddle key -> where each element that `convert` returns comes from.

    owners   of the torch model
    Raises UserError where convert fails, returns entries or shapes that the Paddle model has not,
    or computes: adds, scales, fills.
    """
    zero = np.zeros((), np.float32)
    marks = Marks(owners, {key: np.broadcast_to(zero, o.shape) for key, o in owners.items()})
    passes = [_called(convert, marks.state(which), paddle_shapes) for which in range(PASSES)]
    found = {
        key: marks.sources([values[key] for values in passes if key in values])
        for key in {**passes[0], **passes[1]}
    }
    computed = [
        key
        for key, source in found.items()
        if (source == NOWHERE).any() or not all(key in values for values in passes)
    ]
    if computed:
        raise UserError(Kind.CONVERT_COMPUTES(keys=sorted(computed)))
    return {key: grouped(source.reshape(-1), marks.starts) for key, source in found.items()}


def _called(convert, state, paddle_shapes) -> dict[str, np.ndarray]:
    """What convert returns for a state, as float64, with its names and shapes checked."""
    try:
        returned = convert({key: np.array(values, np.float32) for key, values in state.items()})
    except Exception as error:
        told = Kind.EXCEPTION(exception=type(error).__name__, text=str(error))
        raise UserError(Kind.CONVERT_FAILS(error=told)) from error
    if not isinstance(returned, dict):
        raise UserError(Kind.CONVERT_NO_DICT(type=type(returned).__name__))
    unknown = sorted(str(key) for key in set(returned) - set(paddle_shapes))
    if unknown:
        raise UserError(Kind.CONVERT_MAKES_OTHERS(keys=str(unknown)))
    returned = {key: np.asarray(values) for key, values in returned.items()}
    for key, values in returned.items():
        if values.dtype.kind not in "biuf":
            raise UserError(Kind.CONVERT_NO_NUMBERS(key=key, dtype=str(values.dtype)))
        if values.shape != paddle_shapes[key]:
            shapes = {"shape": str(list(values.shape)), "needed": str(list(paddle_shapes[key]))}
            raise UserError(Kind.CONVERT_SHAPE(key=key, **shapes))
    return {key: values.astype(np.float64) for key, values in returned.items()}


def grouped(index: np.ndarray, starts: Mapping[str, int]) -> dict[str, tuple]:
    """Torch key -> of the elements with these numbers: where they are in it, and where in `index`.

    starts   torch key -> the number of its first element, in rising order
    """
    keys, bounds = list(starts), np.array(list(starts.values()))
    owner = np.searchsorted(bounds, index, side="right") - 1
    parts = {}
    for i in np.unique(owner):
        target = np.flatnonzero(owner == i)
        parts[keys[i]] = index[target] - bounds[i], target
    return parts
