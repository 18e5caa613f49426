"""Random numbers that a model draws by itself: torch_draws.py and paddle_draws.py are twins.

    patch()   once in a process, before a model's file is imported

While a pair's own code runs, its `rand`, `randn_like`, `normal_` and their kin are given the tape's
numbers (common/sides/draws.py says which), and so is what is made of these: distributions, drop
path, masks.  The framework's function runs all the same, for the shape, the dtype, the device and
the gradient that it gives; then its generator is put back and the values are replaced.  What is not
listed here draws as ever: `random_state` of a backend tells that it did.
"""

import functools
import itertools

import numpy as np
import paddle
from paddle.nn import functional as F

from common.sides.session import current
from common.sides.paddle_side import is_float

_SIZE_LIKE = "uniform_random_batch_size_like"  # twin: one name
_original = {}
_running = []  # the function of the framework that runs now: what it calls draws nothing


def patch():
    """Put the tape behind this framework's random functions; a seed in a model's code is moot."""
    if _original:
        return
    functions, methods = paddle._C_ops, paddle.Tensor  # twin: where they are
    for owners, names, kind, values, arguments in (
        ((functions,), ("uniform",), "uniform", _between, _created),  # twin: names
        ((functions,), ("gaussian",), "normal", _scaled, _mean_std),  # twin: names
        ((functions,), (_SIZE_LIKE,), "uniform", _between, _created),  # twin: names
        ((functions,), ("gaussian_inplace_",), "normal", _scaled, _mean_std),  # twin: names
        ((functions,), ("uniform_inplace_",), "uniform", _between, _low_high),  # twin: names
        ((functions,), ("exponential_",), "uniform", _exponential, _rate),  # twin: names
        ((functions,), ("bernoulli",), "uniform", _coins, _probability),  # twin: names
        ((paddle, methods), ("bernoulli_",), "uniform", _coins, _own_probability),  # twin: names
        ((functions,), ("multinomial",), "uniform", _categories, _weights),  # twin: names
        ((functions,), ("randint",), "integers", _in_range, _range),  # twin: names
        ((functions,), ("randperm",), "permutation", _as_they_are, _none),
    ):
        for owner, name in itertools.product(owners, names):
            plain = getattr(owner, name)
            drawn = _from_tape(plain, kind, values, arguments)
            setattr(owner, name, drawn)
            _keep_compilable(plain, drawn)
    for name, function in (("gumbel_softmax", _gumbel_softmax), ("rrelu", _rrelu)):
        _original[name] = getattr(F, name)
        setattr(F, name, function)
    seed = "seed"  # twin: names
    setattr(paddle, seed, _without_effect(getattr(paddle, seed)))


def _keep_compilable(plain, drawn):
    """A function that torch.jit.script compiles knows the framework's own by identity."""
    # Paddle's keep no such table:  # twin: a compiler's own table
    # they look at what is called  # twin: a compiler's own table
    # when it is called.  # twin: a compiler's own table


def _from_tape(plain, kind, values, arguments):
    """The framework's function with the tape's numbers of a kind.

    values      makes an array or a tensor of the numbers, the function's result and what it needs
    arguments   takes from the function's own what `values` needs; None where it is left alone
    """

    @functools.wraps(plain)
    def draw(*given, **options):
        session = current()
        if _running or not session.draws_from_tape:
            return plain(*given, **options)
        state = paddle.get_rng_state()
        _running.append(plain)
        try:
            result = plain(*given, **options)
        finally:
            _running.pop()
        needed = arguments(*given, **options)
        if needed is None or "complex" in str(result.dtype):
            return result
        paddle.set_rng_state(state)
        numbers = session.draw(kind, tuple(result.shape))
        if numbers.size:
            with paddle.no_grad():
                drawn = values(numbers, result, *needed)
                result.copy_(_on(result, drawn).astype(result.dtype), False)
        return result

    return draw


def _without_effect(plain):
    """A seed that a model's own code sets says nothing of the tape."""

    @functools.wraps(plain)
    def seed(*given, **options):
        state = paddle.get_rng_state()
        result = plain(*given, **options)
        if current().draws_from_tape:
            paddle.set_rng_state(state)
        return result

    return seed


def _on(result, values):
    """An array as a tensor beside a result; a tensor as it is."""
    if not isinstance(values, np.ndarray):
        return values
    return paddle.to_tensor(values, place=result.place)  # twin: how a tensor is made


def _floats(numbers, result):
    """Numbers in a result's own float, or in the run's."""
    dtype = result.dtype if is_float(result) else paddle.get_default_dtype()
    return _on(result, numbers).astype(dtype)


# ---- what becomes of the numbers -----------------------------------------------------------------


def _as_they_are(numbers, result):
    return numbers


def _scaled(numbers, result, mean, std):
    return _floats(numbers, result) * std + mean


def _between(numbers, result, low, high):
    return _floats(numbers, result) * (high - low) + low


def _exponential(numbers, result, rate):
    return -paddle.log(_floats(numbers, result)) / rate


def _coins(numbers, result, p):
    """1 with probability p, where floor(p + u), as many drop paths are written, is 1 too."""
    return _floats(numbers, result) >= 1.0 - p


def _categories(numbers, result, weights):
    """Indices (..., n) drawn by weights (..., C)."""
    edges = weights.cumsum(-1) / weights.sum(-1, keepdim=True)
    numbers = _on(result, numbers).astype(edges.dtype).unsqueeze(-1)
    below = (edges.unsqueeze(-2) <= numbers).astype(paddle.int64).sum(-1)
    return below.clip(0, weights.shape[-1] - 1)


def _in_range(numbers, result, low, high):
    return low + np.floor(numbers * (high - low)).astype(np.int64)


# ---- what the functions were given ---------------------------------------------------------------


def _none(*given, **options):
    return ()


def _mean_std(shape_or_tensor, mean, std, *rest, **options):  # twin: arguments
    return mean, std


def _created(*given, **options):  # twin: arguments
    return given[2:4] if len(given) == 6 else given[4:6]  # twin: arguments


def _low_high(x, low, high, *rest, **options):  # twin: arguments
    return low, high  # twin: arguments


def _rate(x, rate, *rest, **options):  # twin: arguments
    return (rate,)  # twin: arguments


def _probability(x, *rest, **options):  # twin: arguments
    return (x,)  # twin: arguments


def _own_probability(x, p=0.5, name=None):  # twin: arguments
    return (p,)


def _weights(x, num_samples, replacement=False, **options):  # twin: arguments
    return (x,) if replacement or num_samples == 1 else None  # twin: arguments


def _range(*given, low=0, high=None, **options):
    ends = list(given[:2])  # twin: arguments
    ends += [high] if high is not None else []
    return (low, *ends)[-2:] if ends else None


# ---- functions that are one operator in a framework ----------------------------------------------


def _gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):  # twin: arguments
    """Jang et al. 2017; where `hard`, one-hot with the gradient of the soft one."""
    scores = x  # twin: arguments
    if not current().draws_from_tape:
        return _original["gumbel_softmax"](x, temperature, hard, axis, name)  # twin: arguments
    uniform = _floats(current().draw("uniform", tuple(scores.shape)), scores)
    noise = -paddle.log(-paddle.log(uniform))
    soft = F.softmax((scores + noise) / temperature, axis=axis)
    if not hard:
        return soft
    index = paddle.argmax(soft, axis=axis)  # a choice, which the ledger has
    chosen = F.one_hot(index, soft.shape[axis]).moveaxis(-1, axis).astype(soft.dtype)
    return chosen - soft.detach() + soft


def _rrelu(x, lower=1 / 8, upper=1 / 3, training=True, name=None):  # twin: arguments
    value = x  # twin: arguments
    if not training or not current().draws_from_tape:  # twin: arguments
        return _original["rrelu"](x, lower, upper, training, name)  # twin: arguments
    uniform = _floats(current().draw("uniform", tuple(value.shape)), value)
    return paddle.where(value >= 0, value, value * (lower + (upper - lower) * uniform))
