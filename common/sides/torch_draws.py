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
import torch
from torch.nn import functional as F

from common.sides.session import current
from common.sides.torch_side import is_float

_LIKE = ("randint", "randint_like")  # twin: one name
_original = {}
_running = []  # the function of the framework that runs now: what it calls draws nothing


def patch():
    """Put the tape behind this framework's random functions; a seed in a model's code is moot."""
    if _original:
        return
    functions, methods = torch, torch.Tensor  # twin: where they are
    for owners, names, kind, values, arguments in (
        ((functions,), ("rand", "rand_like"), "uniform", _as_they_are, _none),  # twin: names
        ((functions,), ("randn", "randn_like"), "normal", _as_they_are, _none),  # twin: names
        ((functions,), ("normal",), "normal", _scaled, _mean_std),  # twin: names
        ((methods,), ("normal_",), "normal", _scaled, _own_mean_std),  # twin: names
        ((methods,), ("uniform_",), "uniform", _between, _low_high),  # twin: names
        ((methods,), ("exponential_",), "uniform", _exponential, _rate),  # twin: names
        ((functions, methods), ("bernoulli",), "uniform", _coins, _probability),  # twin: names
        ((methods,), ("bernoulli_",), "uniform", _coins, _own_probability),  # twin: names
        ((functions, methods), ("multinomial",), "uniform", _categories, _weights),  # twin: names
        ((functions,), _LIKE, "integers", _in_range, _range),  # twin: names
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
    seed = "manual_seed"  # twin: names
    setattr(torch, seed, _without_effect(getattr(torch, seed)))


def _keep_compilable(plain, drawn):
    """A function that torch.jit.script compiles knows the framework's own by identity."""
    operator = torch.jit._builtins._find_builtin(plain)  # twin: a compiler's own table
    if operator:  # twin: a compiler's own table
        torch.jit._builtins._register_builtin(drawn, operator)  # twin: a compiler's own table


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
        state = torch.get_rng_state()
        _running.append(plain)
        try:
            result = plain(*given, **options)
        finally:
            _running.pop()
        needed = arguments(*given, **options)
        if needed is None or "complex" in str(result.dtype):
            return result
        torch.set_rng_state(state)
        numbers = session.draw(kind, tuple(result.shape))
        if numbers.size:
            with torch.no_grad():
                drawn = values(numbers, result, *needed)
                result.copy_(_on(result, drawn).to(result.dtype), False)
        return result

    return draw


def _without_effect(plain):
    """A seed that a model's own code sets says nothing of the tape."""

    @functools.wraps(plain)
    def seed(*given, **options):
        state = torch.get_rng_state()
        result = plain(*given, **options)
        if current().draws_from_tape:
            torch.set_rng_state(state)
        return result

    return seed


def _on(result, values):
    """An array as a tensor beside a result; a tensor as it is."""
    if not isinstance(values, np.ndarray):
        return values
    return torch.as_tensor(values, device=result.device)  # twin: how a tensor is made


def _floats(numbers, result):
    """Numbers in a result's own float, or in the run's."""
    dtype = result.dtype if is_float(result) else torch.get_default_dtype()
    return _on(result, numbers).to(dtype)


# ---- what becomes of the numbers -----------------------------------------------------------------


def _as_they_are(numbers, result):
    return numbers


def _scaled(numbers, result, mean, std):
    return _floats(numbers, result) * std + mean


def _between(numbers, result, low, high):
    return _floats(numbers, result) * (high - low) + low


def _exponential(numbers, result, rate):
    return -torch.log(_floats(numbers, result)) / rate


def _coins(numbers, result, p):
    """1 with probability p, where floor(p + u), as many drop paths are written, is 1 too."""
    return _floats(numbers, result) >= 1.0 - p


def _categories(numbers, result, weights):
    """Indices (..., n) drawn by weights (..., C)."""
    edges = weights.cumsum(-1) / weights.sum(-1, keepdim=True)
    numbers = _on(result, numbers).to(edges.dtype).unsqueeze(-1)
    below = (edges.unsqueeze(-2) <= numbers).to(torch.int64).sum(-1)
    return below.clip(0, weights.shape[-1] - 1)


def _in_range(numbers, result, low, high):
    return low + np.floor(numbers * (high - low)).astype(np.int64)


# ---- what the functions were given ---------------------------------------------------------------


def _none(*given, **options):
    return ()


def _mean_std(mean=0.0, std=1.0, *rest, **options):  # twin: arguments
    return mean, std


def _own_mean_std(self, mean=0.0, std=1.0, *rest, **options):  # twin: arguments
    return mean, std  # twin: arguments


def _low_high(self, low=0.0, high=1.0, **options):  # twin: arguments
    return options.get("from", low), options.get("to", high)  # twin: arguments


def _rate(self, rate=1.0, **options):  # twin: arguments
    return (options.get("lambd", rate),)  # twin: arguments


def _probability(input, p=None, **options):  # twin: arguments
    return (input if p is None else p,)  # twin: arguments


def _own_probability(self, p=0.5, **options):  # twin: arguments
    return (p,)


def _weights(input, num_samples, replacement=False, **options):  # twin: arguments
    return (input,) if replacement or num_samples == 1 else None  # twin: arguments


def _range(*given, low=0, high=None, **options):
    ends = [value for value in given if isinstance(value, int)]  # twin: arguments
    ends += [high] if high is not None else []
    return (low, *ends)[-2:] if ends else None


# ---- functions that are one operator in a framework ----------------------------------------------


def _gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):  # twin: arguments
    """Jang et al. 2017; where `hard`, one-hot with the gradient of the soft one."""
    scores, temperature, axis = logits, tau, dim  # twin: arguments
    if not current().draws_from_tape:
        return _original["gumbel_softmax"](logits, tau, hard, eps, dim)  # twin: arguments
    uniform = _floats(current().draw("uniform", tuple(scores.shape)), scores)
    noise = -torch.log(-torch.log(uniform))
    soft = F.softmax((scores + noise) / temperature, dim=axis)
    if not hard:
        return soft
    index = torch.argmax(soft, dim=axis)  # a choice, which the ledger has
    chosen = F.one_hot(index, soft.shape[axis]).moveaxis(-1, axis).to(soft.dtype)
    return chosen - soft.detach() + soft


def _rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):  # twin: arguments
    value = input  # twin: arguments
    if inplace or not training or not current().draws_from_tape:  # twin: arguments
        return _original["rrelu"](input, lower, upper, training, inplace)  # twin: arguments
    uniform = _floats(current().draw("uniform", tuple(value.shape)), value)
    return torch.where(value >= 0, value, value * (lower + (upper - lower) * uniform))
