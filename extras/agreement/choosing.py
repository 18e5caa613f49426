"""What a model chooses for each example: by the largest scores, or as the pair says.

NumPy only, the same on both sides: the sides' processes read it.  Files of examples and answers
are plain .npz; names in them:

    batches/NAME.npz           in/INPUT     what both sides are fed, (B, ...)
                               at/CHOICE    positions (N, axes) of whole scores that are wanted
    answers/NAME_SIDE.npz      fed          SHA-256 of what the model was given, as bytes
                               top/CHOICE   ids (B, ..., k) int32, the largest score first; -1: NaN
                               top_scores/CHOICE  their scores
                               classes/CHOICE     how many scores there are
                               hook/CHOICE  integers (B, ...) that the pair's `agreement` gives
                               scores/CHOICE      (N, classes) at the positions
                               out/OUTPUT   floats (B, ...), where integers were chosen
"""

from collections.abc import Mapping

import numpy as np

from twincheck.common.pair.case_hooks import call_hook, describe_arrays, hook_place
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.errors import UserError
from twincheck.extras.agreement import Kind

BATCHES, ANSWERS = "batches", "answers"
HOOK = "agreement"
TOP = 5


def choices_of(pair: Pair, outputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """Return choice -> scores (B, ..., classes) of floats, or what was chosen, (B, ...) integers.

    outputs  name -> array
    count    B
    They are the pair's `agreement(outputs)`, else every output called logits, else the only output.
    Raises UserError, which says what `agreement` must return, where there is no such thing.
    """
    hook = getattr(pair.case, HOOK, None)
    if hook is not None:
        found = call_hook(pair, HOOK, hook, dict(outputs))
        found = found if isinstance(found, Mapping) else {"choice": found}
        found = {str(name): np.asarray(values) for name, values in found.items()}
        place = hook_place(pair, HOOK)
    else:
        found = {k: v for k, v in outputs.items() if k.rpartition("/")[2].endswith("logits")}
        if not found and len(outputs) == 1:
            found = {k: v for k, v in outputs.items() if v.dtype.kind == "f" and v.ndim > 1}
        place = Kind.OUTPUTS_OF(model=pair.name, outputs=describe_arrays(outputs))
    for name, values in found.items():
        scores = values.dtype.kind == "f"
        if values.dtype.kind not in "iubf" or values.ndim < 1 + scores or len(values) != count:
            said = {"name": name, "array": f"{values.dtype}{list(values.shape)}", "count": count}
            wanted = Kind.AGREEMENT_WANTED()
            raise UserError(Kind.NO_CHOICE(place=place, **said, wanted=wanted))
    if not found:
        raise UserError(Kind.NO_LOGITS(place=place, wanted=Kind.AGREEMENT_WANTED()))
    return found


def top(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids, their scores), (..., k) each: the largest first, of equal ones the lower id.

    Where a score is NaN nothing is chosen: the ids are -1.
    """
    nan = np.isnan(scores).any(axis=-1, keepdims=True)
    left, found = np.maximum(scores, np.finfo(scores.dtype).min), []  # a mask's -inf is above
    for _ in range(min(TOP, scores.shape[-1])):  # sorting all would take longer
        found.append(left.argmax(axis=-1)[..., None])
        np.put_along_axis(left, found[-1], -np.inf, axis=-1)
    ids = np.concatenate(found, axis=-1)
    values = np.take_along_axis(scores, ids, axis=-1)
    return np.where(nan, -1, ids).astype(np.int32), np.where(nan, np.nan, values)


def answer(
    pair: Pair, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray], count: int
) -> dict[str, np.ndarray]:
    """Return what is written of a batch's outputs; `batch` is the file's content."""
    written = {}
    for name, values in choices_of(pair, outputs, count).items():
        if values.dtype.kind != "f":
            written[f"hook/{name}"] = values.astype(np.int64)
            floats = {k: v for k, v in outputs.items() if v.dtype.kind == "f" and v.ndim}
            written |= {f"out/{k}": v for k, v in floats.items() if len(v) == count}
            continue
        written[f"top/{name}"], written[f"top_scores/{name}"] = top(values)
        written[f"classes/{name}"] = np.int64(values.shape[-1])
        if f"at/{name}" in batch:
            written[f"scores/{name}"] = values[tuple(batch[f"at/{name}"].T)]
    return written
