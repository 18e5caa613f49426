"""Initial weights with noise added: `perturbed` and `trained-like`, two words of --weights.

As initialised, biases are 0, gains 1 and activations small, and many faults do not show.
"""

from collections.abc import Collection, Mapping
from functools import partial

import numpy as np

from twincheck.common.logs.match import is_constant
from twincheck.common.pair.pairs import PERTURBED, TRAINED_LIKE
from twincheck.common.pair.tape import LARGE, Tape
from twincheck.common.weights.layers import CONSTANTS, Owner, why_no_partner

_MEAN, _VARIANCE = "running_mean", "running_var"

# Of `perturbed`, tried in this order till the model's activations are of usual size
# (common/weights/suits.py).  The first is right for nearly every model without convolutions.
LEVELS = tuple(2.0**-k for k in range(8))


def with_noise(
    kind: str,
    state: Mapping[str, np.ndarray],
    owners: Mapping[str, Owner],
    seed: int,
    gain: float = 1.0,
    level: float = 1.0,
    left: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """The initial state with noise from the tape; ties stay tied.

    left   buffers of `hidden` that stay as they are, as all others do

    kind
    perturbed      no bias stays 0 and no gain 1, so that losing or swapping one would show:
                   0.1 N(0, 1) is added to vectors, 0.5 N(0, 1) / sqrt(last axis) to weights,
                   0.1 |N(0, 1)| to buffers of zeros; those of ones are scaled by exp(0.3 N(0, 1))
    trained-like   heavy rows and large gains, as training makes them, and with them large
                   activations: a matrix's rows are scaled by `gain` exp(0.8 N(0, 1)), a norm's
                   gains by exp(0.6 N(0, 1)), and 0.3 N(0, 1) is added to other vectors
    At a `level` of `perturbed` below 1 the factors are so much smaller, and a weight's noise is
    relative to its own size: whatever its fan-in, a layer then makes activations larger by
    1 + level**2 / 8 at most, and fifty such layers by 5 at a level of 1/2.  With the usual noise, a
    convolution of 2048 channels makes them larger by 20.
    Both move running statistics away from 0 and 1.  A padding row, which no gradient reaches, stays
    as it is: Paddle's Embedding gives zeros for it whatever it holds.
    """
    draw = {
        PERTURBED: partial(_perturbed, level=level),
        TRAINED_LIKE: partial(_trained_like, gain=gain),
    }[kind]
    tape = Tape(seed)
    noisy = {}
    buffers = hidden(state, owners).difference(left) if kind == PERTURBED else set()
    for key, values in state.items():
        owner = owners[key]
        statistic = owner.local in (_MEAN, _VARIANCE) and bool(owner.kind)
        if values.dtype.kind != "f" or not (owner.parameter or statistic or key in buffers):
            noisy[key] = values
        elif owner.same_as != key:
            noisy[key] = noisy[owner.same_as]
        else:
            noisy[key] = draw(tape, key, values, owner)
            if owner.padding is not None:
                noisy[key][owner.padding] = values[owner.padding]
    return noisy


def hidden(state: Mapping[str, np.ndarray], owners: Mapping[str, Owner]) -> set[str]:
    """The buffers of floats that are zeros or ones, such as a router's correction bias.

    A port that uses them wrongly computes the same.  Any others come out of a constructor's
    arithmetic, and what one framework alone keeps is nobody's else.
    """
    return {
        key
        for key, owner in owners.items()
        if not owner.parameter and state[key].dtype.kind == "f" and is_constant(state[key])
        if state[key].size and state[key].flat[0] in (0.0, 1.0) and not why_no_partner(owner)
        if owner.local not in CONSTANTS
    }


def _perturbed(tape: Tape, key: str, values: np.ndarray, owner: Owner, level: float) -> np.ndarray:
    site = f"stir/{key}"
    if values.size >= LARGE and values.ndim > 1:
        noise = tape.normal_in_blocks(site, 0, values.shape)
        noise *= np.float32(level * _size_of_noise(values, level))
        noise += values
        return noise.astype(values.dtype, copy=False)
    noise = level * tape.normal(site, 0, values.shape)
    if owner.local == _VARIANCE or not (owner.parameter or owner.local == _MEAN):
        # Counts and squares are not below 0.
        ones = values * np.exp(0.3 * noise)
        return np.where(values == 0.0, 0.1 * np.abs(noise), ones).astype(values.dtype)
    if values.ndim == 1:  # biases and gains: those of layers in a row add up, and do not multiply
        size = 0.1
    else:
        size = _size_of_noise(values, level)
    return values + (size * noise).astype(values.dtype)


def _size_of_noise(values: np.ndarray, level: float) -> float:
    """Of a weight's noise, but for `level`; below 1 by its rms, or its fan-in where that is 0."""
    if level == 1.0:
        return 0.5 / np.sqrt(values.shape[-1] if values.ndim else 1)
    if values.size >= LARGE:
        rows = (np.asarray(row, np.float64).reshape(-1) for row in values)
        rms = float(np.sqrt(sum(float(np.dot(row, row)) for row in rows) / values.size))
    else:
        rms = float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) if values.size else 0.0
    return 0.5 * (rms or 1.0 / np.sqrt(max(1, np.prod(values.shape[1:]))))


def _trained_like(
    tape: Tape, key: str, values: np.ndarray, owner: Owner, gain: float
) -> np.ndarray:
    noise = tape.normal(f"trained-like/{key}", 0, values.shape[:1] + (1,) * (values.ndim - 1))
    if values.ndim > 1:
        return (values * np.exp(0.8 * noise)).astype(values.dtype) * values.dtype.type(gain)
    if owner.local == _VARIANCE or ("Norm" in owner.kind and owner.local == "weight"):
        return (values * np.exp(0.6 * noise)).astype(values.dtype)
    return (values + 0.3 * noise).astype(values.dtype)
