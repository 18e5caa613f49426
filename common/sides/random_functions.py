"""Random numbers that a model draws by itself, from the tape.

    patch(side)   once in a process, before a model's file is imported

While a pair's own code runs, its `rand`, `randn_like`, `normal_` and their kin are given the tape's
numbers (draws.py says which), and so is what is made of these: distributions, drop path, masks.
The framework's function runs all the same, for the shape, the dtype, the device and the gradient
that it gives; then its generator is put back and the values are replaced.  A side's DRAW lists the
functions.  What is not listed there draws as ever: a side's `random_state` tells that it did.
"""

import functools
from functools import partial

import numpy as np

from twincheck.common.sides.session import current
from twincheck.common.system.intercept import Intercept

_running = []  # the function of the framework that runs now: what it calls draws nothing


@functools.cache
def patch(side):
    """Put the tape behind this framework's random functions; a seed in a model's code is moot."""
    handles = {
        path: partial(_from_tape, side, *_NUMBERS[what], arguments)
        for path, (what, arguments) in side.DRAW.items()
    }
    for name, arguments in side.DRAW_WRITTEN_OUT.items():
        formula = partial(_written_out, side, _FORMULAS[name], arguments)
        handles[f"nn.functional.{name}"] = formula
    handles[side.SEED] = partial(_without_effect, side)
    Intercept(side.lib, handles).put()


def _from_tape(side, kind, values, arguments, own, given, options):
    """The framework's function with the tape's numbers of a kind.

    values      makes an array or a tensor of the numbers, the function's result and what it needs
    arguments   takes from the function's own what `values` needs; None where it is left alone
    """
    session = current()
    if _running or not session.draws_from_tape:
        return own(*given, **options)
    state = side.generator_state()
    _running.append(own)
    try:
        result = own(*given, **options)
    finally:
        _running.pop()
    needed = arguments(*given, **options)
    if needed is None or "complex" in str(result.dtype):
        return result
    side.set_generator_state(state)
    numbers = session.draw(kind, tuple(result.shape))
    if numbers.size:
        with side.no_grad():
            drawn = _on(side, result, values(side, numbers, result, *needed))
            result.copy_(side.cast(drawn, result.dtype), False)
    return result


def _written_out(side, formula, arguments, own, given, options):
    """A function that is one operator in a framework, of uniform numbers of its first argument's
    shape; `arguments` takes from the function's own what the formula needs, None as above."""
    session = current()
    needed = arguments(*given, **options) if session.draws_from_tape else None
    if needed is None:
        return own(*given, **options)
    uniform = session.draw("uniform", tuple(needed[0].shape))
    return formula(side, _floats(side, uniform, needed[0]), *needed)


def _without_effect(side, own, given, options):
    """A seed that a model's own code sets says nothing of the tape."""
    state = side.generator_state()
    result = own(*given, **options)
    if current().draws_from_tape:
        side.set_generator_state(state)
    return result


def _on(side, result, values):
    """An array as a tensor where a result is; a tensor as it is."""
    return side.beside(values, result) if isinstance(values, np.ndarray) else values


def _floats(side, numbers, result):
    """Numbers in a result's own float, or in the run's."""
    dtype = result.dtype if side.is_float(result) else side.lib.get_default_dtype()
    return side.cast(_on(side, result, numbers), dtype)


# ---- what becomes of the numbers -----------------------------------------------------------------


def _categories(side, numbers, result, weights):
    """Indices (..., n) drawn by weights (..., C)."""
    edges = weights.cumsum(-1) / weights.sum(-1, keepdim=True)
    numbers = side.cast(_on(side, result, numbers), edges.dtype).unsqueeze(-1)
    below = side.cast(edges.unsqueeze(-2) <= numbers, side.lib.int64).sum(-1)
    return below.clip(0, weights.shape[-1] - 1)


# What a function draws -> the tape's kind of numbers, and what becomes of them.
_NUMBERS = {
    "uniform": ("uniform", lambda side, u, result: u),
    "between": ("uniform", lambda side, u, x, low, high: _floats(side, u, x) * (high - low) + low),
    "exponential": ("uniform", lambda side, u, x, rate: -side.lib.log(_floats(side, u, x)) / rate),
    # 1 with probability p, where floor(p + u), as many drop paths are written, is 1 too.
    "coins": ("uniform", lambda side, u, x, p: _floats(side, u, x) >= 1.0 - p),
    "categories": ("uniform", _categories),
    "normal": ("normal", lambda side, n, result: n),
    "scaled": ("normal", lambda side, n, x, mean, std: _floats(side, n, x) * std + mean),
    "integers": (
        "integers",
        lambda side, n, x, low, high: low + np.floor(n * (high - low)).astype(np.int64),
    ),
    "permutation": ("permutation", lambda side, n, result: n),
}


def _gumbel_softmax(side, uniform, scores, temperature, hard, axis):
    """Jang et al. 2017; where `hard`, one-hot with the gradient of the soft one."""
    F, noise = side.lib.nn.functional, -side.lib.log(-side.lib.log(uniform))
    soft = F.softmax((scores + noise) / temperature, axis)
    if not hard:
        return soft
    index = side.lib.argmax(soft, axis)  # a choice, which the ledger has
    chosen = F.one_hot(index, soft.shape[axis]).moveaxis(-1, axis)
    return side.cast(chosen, soft.dtype) - soft.detach() + soft


def _rrelu(side, uniform, value, lower, upper):
    return side.lib.where(value >= 0, value, value * (lower + (upper - lower) * uniform))


_FORMULAS = {"gumbel_softmax": _gumbel_softmax, "rrelu": _rrelu}
