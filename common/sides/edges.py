"""The case `edges`: a pair's own inputs with what those seldom hold, as far as the reference goes.

Integers that are ids get the model's padding id at both ends of a row and in a whole row, and a
mask of their shape says so; floats get a quiet sample, a loud one and one of zeros.  All are in one
batch, beside samples as they were: what a port takes over the batch instead of each sample shows.
"""

import re
from collections.abc import Collection, Mapping

import numpy as np

from twincheck.common.sides.modes import unrecorded
from twincheck.common.sides.places import error_sentence
from twincheck.common.system.errors import is_ours
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import named_leaves
from twincheck.common.weights.suits import Sizes

QUIET, LOUD = 1e-4, 10.0
PARTS = PADDING, FLOATS, ROWS, LARGE = "padding", "floats", "rows", "large"
# Tried in this order: large values, whole rows of padding and zeros are what references refuse.
_TRIED = (PARTS, (PADDING, FLOATS, ROWS), (PADDING, FLOATS), (PADDING,), (FLOATS,))
# What models and configurations call their padding id.
_NAMES = ("pad_token_id", "padding_idx", "pad_id", "pad_idx", "pad_index", "pad")
_NO_IDS = re.compile(r"type|seg|pos|label|target|len|mask|index|edge|time|step")
_MASK = re.compile(r"mask|keep|valid")


def varied(
    inputs: Mapping[str, np.ndarray], padding: int | None, parts: Collection[str]
) -> dict[str, np.ndarray]:
    """Return the inputs with what `parts` name put into some of their samples.

    padding   the model's padding id; None: it has none, and integers stay
    """
    found = {name: values.copy() for name, values in inputs.items()}
    for name, values in found.items():
        if values.ndim < 2 or not values.size:
            continue
        if values.dtype.kind == "f" and FLOATS in parts and len(values) > 1:
            _scale(values, parts)
        elif values.dtype.kind in "iu" and values.ndim == 2 and not _NO_IDS.search(name.lower()):
            if padding is not None and PADDING in parts and values.shape[1] > 2:
                _pad(found, values, padding, ROWS in parts)
    return found


def _scale(values: np.ndarray, parts: Collection[str]) -> None:
    if np.isin(values, (0.0, 1.0)).all():  # a mask
        return
    if ROWS in parts and len(values) > 2:
        values[1] = 0.0
    values[0] *= QUIET
    if LARGE in parts and (values < 0.0).any():  # else they may be shares, or places in a picture
        values[-1] *= LOUD


def _pad(found: Mapping[str, np.ndarray], ids: np.ndarray, padding: int, rows: bool) -> None:
    """Put padding into ids (B, T), and into the masks of their shape."""
    size, at = max(1, ids.shape[1] // 4), np.zeros(ids.shape, bool)
    at[0, :size] = at[0, -size:] = True
    if rows and len(ids) > 1:
        at[-1] = True
    ids[at] = padding
    if rows and len(ids) > 1:
        at[-1, 0] = False  # a row that is masked as a whole is defined by its mask's value alone
    for name, values in found.items():
        is_mask = values.shape == ids.shape and _MASK.search(name.lower())
        if is_mask and np.isin(values, (0, 1)).all():
            values[at] = "pad" in name.lower()  # such a one is True where padding is


def choose(run) -> tuple[bool, str]:
    """Give a run the varied inputs, and return whether it takes any, and what was left out of them.

    The reference decides: of what it ends in an error, or gives numbers that are not finite.
    """
    known = run.suited.edges.get(run.case.name)
    if known is None and run.job.is_reference:
        known = _tried(run)
        run.suited.choose("edges", run.case.name, known)
    if not known or not known["parts"]:
        return False, known["why"] if known else ""
    padding, taken = next(iter(known["padding"]), None), set(known["taken"])
    own = {name: values for name, values in run.inputs.items() if name in taken}
    run.inputs = run.inputs | varied(own, padding, known["parts"])
    return True, known["why"]


def _tried(run) -> dict[str, object]:
    model, own, whys, seen = run.build(), run.inputs, [], [run.inputs]
    padding, taken = _padding_of(run, model), run.of_forward(model, own)
    told = {"padding": padding, "taken": list(taken)}
    try:
        usual = None
        for parts in _TRIED:
            run.inputs = own | varied(taken, next(iter(padding), None), parts)
            if any(_alike(run.inputs, other) for other in seen):
                continue
            seen.append(run.inputs)
            sizes = _measure(run, model)
            why = sizes if isinstance(sizes, str) else sizes.beyond()
            if why and sizes is not why:
                run.inputs = own
                usual = usual or _measure(run, model)
                why = sizes.beyond(usual)
            if not why:
                said = Kind.EDGES_IN_PART(why=whys[0]) if whys else ""
                return told | {"parts": list(parts), "why": said}
            whys.append(why)
    finally:
        run.inputs = own
    return told | {"parts": [], "why": Kind.EDGES_NOT(why=whys[0]) if whys else ""}


def _alike(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return all(np.array_equal(values, other[name]) for name, values in one.items())


def _padding_of(run, model) -> list[int]:
    """Return the model's padding id alone: its configuration's, its own, or one of its modules'."""
    holders = [run.case.config]
    for _, module in run.side.modules(model):
        config = getattr(module, "config", None)
        config = config if isinstance(config, dict) else getattr(config, "__dict__", {})
        holders += [vars(module), config]
    values = (holder.get(name) for name in _NAMES for holder in holders)
    return [value for value in values if type(value) is int and value >= 0][:1]


def _measure(run, model) -> Sizes | str:
    """Return the sizes of a forward pass, or why the reference refuses its inputs."""
    sizes = Sizes()
    try:
        with unrecorded(run):
            outputs = run.call(model, run.tensors())
        leaves = named_leaves(outputs, run.side.is_tensor)
    except Exception as error:
        if is_ours(error):
            raise
        return error_sentence(error)
    for name, value in leaves.items():
        values = run.side.array(value)
        if values.dtype.kind in "fc" and not np.isfinite(values).all():
            return Kind.EDGES_NOT_FINITE(name=name or "output")
        sizes.see_output(values)
    return sizes
